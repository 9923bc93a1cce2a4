#include "sketch_part.h"

#include <string.h>

#include "quantity.h"

/* The first `cols` columns of a part. */
static void sketch_columns(const struct sketch *all, const struct block *part, int64_t cols,
                           const void *memory, int threads)
{
    struct sketch k = *all;
    int64_t out = (k.trans ? part->col : part->row) * k.classes;
    k.first = k.trans ? part->row : part->col;
    k.accumulate = true;
    k.rows = part->rows;
    k.cols = cols;
    k.ld = part->cols;
    k.matrix = memory;
    k.weights += k.first;
    k.left_out += k.first;
    k.sums += out;
    k.squares += out;
    k.odd = k.odd ? k.odd + out : NULL;
    sketch_cpu(&k, threads);
}

void sketch_part(const struct sketch *all, const struct block *part, const void *memory,
                 int threads)
{
    sketch_columns(all, part, part->cols, memory, threads);
}

/* Copy what whole rows have below the diagonal of the square of these rows to above it. */
static void complete_square(const struct block *rows, size_t size, char *memory)
{
    for (int64_t i = 0; i < rows->rows; i++)
        for (int64_t j = i + 1; j < rows->rows; j++)
            memcpy(memory + (size_t)(i * rows->cols + rows->row + j) * size,
                   memory + (size_t)(j * rows->cols + rows->row + i) * size, size);
}

void sketch_lower_part(const struct sketch *all, int64_t side, const struct block *part,
                       void *memory, int threads)
{
    const size_t size = scalar_size(all->type);
    if (part->rows > 1 && part->cols < side) { /* of chunks: row by row */
        for (int64_t i = 0; i < part->rows; i++) {
            struct block row = {part->row + i, part->col, 1, part->cols};
            sketch_lower_part(all, side, &row, (char *)memory + (size_t)(i * row.cols) * size,
                              threads);
        }
        return;
    }
    int64_t left = min_i64(max_i64(part->row - part->col, 0), part->cols);
    int64_t with_square = min_i64(max_i64(part->row + part->rows - part->col, 0), part->cols);
    struct sketch mirror = *all;
    mirror.trans = true;
    complete_square(part, size, memory);
    sketch_columns(all, part, with_square, memory, threads);
    sketch_columns(&mirror, part, left, memory, threads);
}
