/* Rectangles of a matrix, and how one that is too large for a buffer is cut into parts. */
#ifndef DGEMM_OOC_BLOCK_H
#define DGEMM_OOC_BLOCK_H

#include <stdint.h>

/* In elements: rows [row, row + rows) x columns [col, col + cols). */
struct block {
    int64_t row, col, rows, cols;
};

/* Parts of at most `elements` elements: whole rows where at least one fits, pieces of one row
 * otherwise, in row-major order.  An empty block has none. */
int64_t block_parts(const struct block *block, int64_t elements);
struct block block_part(const struct block *block, int64_t elements, int64_t index);

#endif
