#include "block.h"

#include <assert.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t block_parts(const struct block *block, int64_t elements)
{
    assert(elements > 0);
    if (block->rows == 0 || block->cols == 0)
        return 0;
    if (block->cols > elements)
        return block->rows * ((block->cols - 1) / elements + 1);
    int64_t rows = elements / block->cols;
    return (block->rows - 1) / rows + 1;
}

struct block block_part(const struct block *block, int64_t elements, int64_t index)
{
    assert(index >= 0 && index < block_parts(block, elements));
    struct block part = *block;
    if (block->cols > elements) {
        int64_t per_row = (block->cols - 1) / elements + 1, skip = index % per_row * elements;
        part.row += index / per_row;
        part.rows = 1;
        part.col += skip;
        part.cols = smaller(elements, block->cols - skip);
    } else {
        int64_t rows = elements / block->cols, skip = index * rows;
        part.row += skip;
        part.rows = smaller(rows, block->rows - skip);
    }
    return part;
}
