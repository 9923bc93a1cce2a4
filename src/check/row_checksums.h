/* The checksum of C by groups of its rows, which shows where C is damaged.  Blocks add up to it in
 * any order, as they do to the checksum of the whole (checksum.h). */
#pragma once

#include <stdbool.h>

#include "checksum.h"
#include "source.h"

enum { ROW_GROUPS = 64 };

/* Plain data.  The last groups of a matrix of few rows are empty. */
struct row_checksums {
    uint64_t sums[ROW_GROUPS];
};

/* The rows of groups [first, end) of a matrix. */
struct block row_group_block(int64_t rows, int64_t cols, int first, int end);

/* The checksum of all groups together. */
uint64_t row_checksums_total(const struct row_checksums *checksums);

/* Add a block of a matrix that has so many rows.  From any thread. */
void row_checksums_add(_Atomic uint64_t sums[ROW_GROUPS], const struct checksum *table,
                       int64_t rows, const struct block *block, const void *memory);

/* Blocks of a file that all ranks read together, each on so many threads. */
struct reading {
    const struct source *source;
    enum scalar type;
    const struct block *blocks;
    int count;
    int threads;
    bool stops; /* whether a request to stop (stop.h) ends it */
};

struct comm;

/* Collective.  Read the blocks and compute their checksums.  A rank that cannot read its share
 * complains; EXIT_STOPPED after a request to stop.  The caller brings about the agreement of all
 * ranks. */
int row_checksums_read(const struct reading *reading, const struct comm *comm,
                       struct row_checksums *checksums, struct error *err);
