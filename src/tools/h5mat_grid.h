/* A matrix cut into blocks that threads work on at once, in bounded memory.
 *
 * Moving and computing overlap by having more threads than processors: while some wait for the
 * disk, others compute. */
#pragma once

#include <stddef.h>

#include "block.h"

struct error;

struct grid {
    int64_t rows, cols;             /* of the matrix */
    int64_t block_rows, block_cols; /* of a block */
};

/* Blocks of whole chunks (1x1 where there are none) of about 4 MiB of doubles, or of one chunk. */
struct grid grid_make(int64_t rows, int64_t cols, int64_t chunk_rows, int64_t chunk_cols);

/* How many blocks there are. */
int64_t grid_blocks(const struct grid *grid);

/* Work on one block, the `index`-th in row-major order, with a buffer of its own.  Called from
 * several threads at once. */
typedef int grid_work(void *context, int64_t index, const struct block *block, void *buffer,
                      struct error *err);

/* Call `work` for every block with `buffer_bytes` bytes an element; stops at the first failure.
 * Takes 128 MiB at most, or what one block needs. */
int grid_each(const struct grid *grid, size_t buffer_bytes, grid_work *work, void *context,
              struct error *err);
