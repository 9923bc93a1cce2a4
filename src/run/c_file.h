/* C's file as the pipeline writes it: blocks in any order, from any thread, with their checksum. */
#pragma once

#include "plan.h"
#include "row_checksums.h"

struct comm;
struct store;

struct c_file {
    /* Set by the caller, who owns them. */
    const struct problem *problem;
    const struct plan *plan;
    const struct source *source;
    const struct comm *comm;

    struct store *store;
    struct checksum checksum;             /* as slots have C; closed when it is not checked */
    _Atomic uint64_t written[ROW_GROUPS]; /* the checksum of what this rank has written */
    _Atomic int64_t infinite;             /* finite elements that became infinite in it */
    _Atomic int64_t prepared;             /* pieces of the file that are ready to be written to */
};

/* On all ranks: open C's file; rank 0 takes its space.  `checked`: checksums are wanted.  After a
 * failure c_file_close is still due. */
int c_file_open(struct c_file *file, bool checked, struct error *err);
void c_file_close(struct c_file *file);

/* Write a block and add it to the checksum.  In `memory` it becomes what is written: 0 above the
 * diagonal where C is the lower half alone, and floats where doubles are rounded.  Blocks; any
 * thread. */
int c_file_write(struct c_file *file, const struct block *block, void *memory, struct error *err);

/* Elements that are written, are not what they were, and are checked otherwise: infinite ones, so
 * far. */
double c_file_not_judged(const struct c_file *file);

/* Prepare some rows of C that are this rank's to prepare, in the order in which they are written:
 * all ranks take turns, and so do the tiles of a column of the grid.  False when there is nothing
 * to be gained.  Any thread. */
bool c_file_prepare(struct c_file *file);
