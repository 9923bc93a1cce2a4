/* Means and standard deviations of the rows or columns of the matrix of a centred or scaled product
 * (scaling.h), from one pass over its file (shared_read.h) before anything is multiplied.
 *
 * Sums are exact (moments.h), so that the bits depend on the matrix alone.  Where the memory does
 * not hold the sums of all lines, they are read in groups of as many as it holds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "block.h"

struct comm;
struct error;
struct machine;
struct problem;
struct standardize;

/* So many lines, of which this is the first. */
struct line_count {
    int64_t count, first;
};

/* The same on all ranks. */
struct statistics {
    int64_t lines;
    double *mean, *rest, *deviation; /* of each line (moments.h), one behind the other */
    int64_t missing;                 /* elements that are NaN */
    struct line_count constant;      /* whose deviation is 0 */
    struct line_count infinite;      /* with an infinite element: both are NaN */
    double seconds, bytes;           /* that it took, and that all ranks read */
};

/* Collective, blocks.  Compute them within machine->host_memory on each rank, on machine->threads.
 * Complains (EXIT_INPUT) about NaN where nothing may be missing, and about elements so large that
 * differences from their mean may be too large for their type; EXIT_STOPPED after a request to
 * stop.  After a failure statistics_free is still due. */
int statistics_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                    struct statistics *statistics, struct error *err);
/* Whether both have the same vectors, bit by bit. */
bool statistics_equal(const struct statistics *a, const struct statistics *b);

/* The vectors; what was counted stays. */
void statistics_free(struct statistics *statistics);

/* What the elements of the problem's matrix become: all but the extents and the matrix, with the
 * vectors from the first line on. */
struct standardize statistics_standardize(const struct problem *p,
                                          const struct statistics *statistics);

/* The part of it for a block of the matrix. */
struct standardize statistics_part(const struct standardize *all, const struct block *block);
