#include "block.h"

#include <assert.h>

#include "quantity.h"

static void common(int64_t a, int64_t a_length, int64_t b, int64_t b_length, int64_t *start,
                   int64_t *length)
{
    *start = max_i64(a, b);
    *length = max_i64(0, min_i64(a + a_length, b + b_length) - *start);
}

struct block block_common(const struct block *a, const struct block *b)
{
    struct block both;
    common(a->row, a->rows, b->row, b->rows, &both.row, &both.rows);
    common(a->col, a->cols, b->col, b->cols, &both.col, &both.cols);
    return both;
}

bool block_join(struct block *b, const struct block *next)
{
    bool below = next->row == b->row + b->rows && next->col == b->col && next->cols == b->cols;
    bool right = next->col == b->col + b->cols && next->row == b->row && next->rows == b->rows;
    b->rows += below ? next->rows : 0;
    b->cols += right ? next->cols : 0;
    return below || right;
}

/* One direction: parts of `size`, the first of which begins at `origin`, maybe before the block. */
struct axis {
    int64_t origin, size, count;
};

/* Parts that begin at multiples of `size` from `from`, which is not behind the block's start. */
static struct axis axis_make(int64_t start, int64_t length, int64_t from, int64_t size)
{
    int64_t origin = start - (start - from) % size;
    return (struct axis){origin, size, (start + length - origin - 1) / size + 1};
}

/* The chunks that the block lies in; all of its length where that is one or there are none. */
static struct axis axis_of_chunks(int64_t start, int64_t length, int64_t chunk)
{
    int64_t before = chunk ? start % chunk : 0;
    if (chunk == 0 || before + length <= chunk)
        return axis_make(start, length, start, length);
    return axis_make(start, length, start - before, chunk);
}

static void axis_cut(const struct axis *axis, int64_t index, int64_t *start, int64_t *length)
{
    int64_t end = *start + *length, first = axis->origin + index * axis->size;
    *start = max_i64(*start, first);
    *length = min_i64(end, first + axis->size) - *start;
}

/* The parts' grid; true when they go down before they go across. */
static bool make_grid(const struct block *b, const struct block_cut *cut, struct axis *down,
                      struct axis *across)
{
    *down = axis_of_chunks(b->row, b->rows, cut->chunk_rows);
    *across = axis_of_chunks(b->col, b->cols, cut->chunk_cols);
    if (across->size > cut->elements) { /* pieces of one row */
        *down = axis_make(b->row, b->rows, b->row, 1);
        *across = axis_make(b->col, b->cols, b->col, cut->elements);
        return false;
    }
    if (across->size > cut->elements / down->size) { /* rows of one chunk */
        int64_t rows = cut->elements / across->size;
        *down = axis_make(b->row, b->rows, down->origin, rows);
        return true;
    }
    int64_t chunks = cut->elements / (down->size * across->size);
    int64_t high = max_i64(1, chunks / across->count), wide = min_i64(chunks, across->count);
    *down = axis_make(b->row, b->rows, down->origin, high * down->size);
    *across = axis_make(b->col, b->cols, across->origin, wide * across->size);
    return false;
}

int64_t block_cut_parts(const struct block *block, const struct block_cut *cut)
{
    struct axis down, across;
    assert(cut->elements > 0);
    if (block_empty(block))
        return 0;
    make_grid(block, cut, &down, &across);
    return down.count * across.count;
}

struct block block_cut_part(const struct block *block, const struct block_cut *cut, int64_t index)
{
    assert(index >= 0 && index < block_cut_parts(block, cut));
    struct axis down, across;
    struct block part = *block;
    bool down_first = make_grid(block, cut, &down, &across);
    int64_t row = down_first ? index % down.count : index / across.count;
    int64_t col = down_first ? index / down.count : index % across.count;
    axis_cut(&down, row, &part.row, &part.rows);
    axis_cut(&across, col, &part.col, &part.cols);
    return part;
}

struct block block_cut_rest(const struct block *block, const struct block_cut *cut, int64_t index)
{
    struct axis down, across;
    const bool down_first = make_grid(block, cut, &down, &across);
    const int64_t last = (down_first ? across.count : down.count) - 1;
    const struct block part = block_cut_part(block, cut, index);
    struct block rest = *block;
    if (!down_first || index / down.count == last)
        rest.row = part.row;
    if (down_first || index / across.count == last)
        rest.col = part.col;
    rest.rows -= rest.row - block->row;
    rest.cols -= rest.col - block->col;
    return rest;
}

int64_t block_cut_before(const struct block *block, const struct block_cut *cut, int64_t index)
{
    struct axis down, across;
    bool down_first = make_grid(block, cut, &down, &across);
    struct block part = block_cut_part(block, cut, index);
    int64_t above = part.row - block->row, left = part.col - block->col;
    return down_first ? left * block->rows + above * part.cols
                      : above * block->cols + left * part.rows;
}

int64_t block_parts(const struct block *block, int64_t elements)
{
    return block_cut_parts(block, &(struct block_cut){.elements = elements});
}

struct block block_part(const struct block *block, int64_t elements, int64_t index)
{
    return block_cut_part(block, &(struct block_cut){.elements = elements}, index);
}
