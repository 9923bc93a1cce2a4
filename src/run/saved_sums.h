/* Saved sums of the tiles at work, on their way to a file and back (save.h). */
#pragma once

#include "sums.h"
#include "work.h"

struct error;
struct problem;
struct run;
struct source;

/* The matrix in a file of saved sums: so many matrices as large as C (sums_saved), one below the
 * other, with holes where nothing was saved; behind it, the sign of the run that has written it. */
struct source saved_sums_matrix(const struct problem *p, const struct source *output,
                                const char *file, int matrices);

/* The sums of this rank's tile when so many slabs of it are multiplied; begin to move so many. */
struct sums_there saved_sums_after(const struct run *run, int64_t slabs);
void saved_sums_begin(const struct run *run, const char *what, int count);

/* Enqueue copies of the sums of the tile at work, as they are now, to the saver's sink. */
int saved_sums_write(struct run *run, const struct sums_there *sums, struct error *err);

/* Load the sums of this rank's tile, of the only super-block, as they were written, and add up
 * their checksum.  `cannot`: why they cannot be read, which ends no run.  Blocks. */
int saved_sums_load(struct run *run, uint64_t *sum, struct error *cannot, struct error *err);
