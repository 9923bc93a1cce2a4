/* Means and standard deviations of the rows or columns of the matrices of a centred or scaled
 * product (scaling.h).  They come from one pass over their files (shared_read.h) before anything is
 * multiplied, or are found while a run reads the files for its product (census.h).
 *
 * Sums are exact (moments.h), so that the bits depend on the matrix alone.  Where the memory does
 * not hold the sums of all lines, they are read in groups of as many as it holds. */
#pragma once

#include <stdbool.h>

#include "block.h"
#include "lines.h"
#include "problem.h"

struct comm;
struct error;
struct machine;

/* Collective, blocks.  Before the others: allocate the vectors and find the shifts, in a small
 * sample of the matrices.  After a failure statistics_free is still due. */
int statistics_open(const struct problem *p, const struct machine *machine, struct comm *comm,
                    struct statistics *statistics, struct error *err);

/* Collective, blocks.  Compute them within machine->host_memory on each rank, on machine->threads.
 * Complains (EXIT_INPUT) about NaN where nothing may be missing, and about elements so large that
 * differences from their mean may be too large for their type; EXIT_STOPPED after a request to
 * stop. */
int statistics_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                    struct statistics *statistics, struct error *err);
/* Whether both have the same vectors, bit by bit. */
bool statistics_equal(const struct statistics *a, const struct statistics *b);

/* The vectors; what was counted stays. */
void statistics_free(struct statistics *statistics);

/* What the elements of the problem's matrices become: all but the extents and the matrix, with the
 * vectors from the first line on.  And likewise what a run makes of them. */
struct standardize statistics_standardize(const struct problem *p,
                                          const struct statistics *statistics);
struct standardize statistics_shifted(const struct problem *p, const struct statistics *statistics);

/* The part of it for a block of an operand's matrix. */
struct standardize statistics_part(const struct problem *p, const struct standardize *all,
                                   enum operand operand, const struct block *block);
