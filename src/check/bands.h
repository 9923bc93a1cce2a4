/* The checksum of C by bands of its rows, which shows where C is damaged.  Blocks add up to it in
 * any order, as they do to the checksum of the whole (checksum.h). */
#pragma once

#include <stdbool.h>

#include "checksum.h"
#include "matfile.h"

enum { BANDS = 64 };

/* Plain data.  The last bands of a matrix of few rows are empty. */
struct bands {
    uint64_t sums[BANDS];
};

/* The rows of bands [first, end) of a matrix. */
struct block bands_block(int64_t rows, int64_t cols, int first, int end);

/* The checksum of all bands together. */
uint64_t bands_total(const struct bands *bands);

/* Add a block of a matrix that has so many rows.  From any thread. */
void bands_add(_Atomic uint64_t sums[BANDS], const struct checksum *table, int64_t rows,
               const struct block *block, const void *memory);

/* Blocks of a file that all ranks read together, each on so many threads. */
struct reading {
    const struct matrix_info *info;
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
int bands_read(const struct reading *reading, const struct comm *comm, struct bands *bands,
               struct error *err);
