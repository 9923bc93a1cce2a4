/* Rectangles of a matrix, and how one that is too large for a buffer is cut into parts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* In elements: rows [row, row + rows) x columns [col, col + cols). */
struct block {
    int64_t row, col, rows, cols;
};

static inline bool block_equal(const struct block *x, const struct block *y)
{
    return x->row == y->row && x->col == y->col && x->rows == y->rows && x->cols == y->cols;
}

static inline bool block_empty(const struct block *b)
{
    return b->rows == 0 || b->cols == 0;
}

/* What both have in common; no rows or no columns where that is nothing. */
struct block block_common(const struct block *a, const struct block *b);

/* Make `next` a part of `block` where it continues that downwards or to the right, and say whether
 * it does. */
bool block_join(struct block *block, const struct block *next);

/* How a block is cut: into parts of at most `elements` elements.  Where the matrix is chunked, into
 * whole chunks or, where none fits, so that the parts of one chunk follow each other; otherwise
 * into whole rows or, where none fits, pieces of a row. */
struct block_cut {
    int64_t elements;
    int64_t chunk_rows, chunk_cols; /* 0: not chunked */
};

/* Every element is in one part.  An empty block has none. */
int64_t block_cut_parts(const struct block *block, const struct block_cut *cut);
struct block block_cut_part(const struct block *block, const struct block_cut *cut, int64_t index);

/* Elements in the parts before that one. */
int64_t block_cut_before(const struct block *block, const struct block_cut *cut, int64_t index);

/* The smallest block that has that part and all later ones. */
struct block block_cut_rest(const struct block *block, const struct block_cut *cut, int64_t index);

/* Parts where nothing is chunked: parts are in row-major order. */
int64_t block_parts(const struct block *block, int64_t elements);
struct block block_part(const struct block *block, int64_t elements, int64_t index);
