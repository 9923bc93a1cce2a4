#include "sketch_part.h"

#include "quantity.h"
#include "vector.h"

enum { PAIRS = 32 }; /* side of the blocks of pairs that are mirrored one by one */

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

/* The mirror, elsewhere, of a block of what a part's memory has. */
static struct mirror mirror_of(const struct sketch *all, const struct lower_half *half,
                               const struct block *part, const struct block *of, void *memory)
{
    const int64_t at = (of->row - part->row) * part->cols + of->col - part->col;
    return (struct mirror){.type = all->type,
                           .rows = of->rows,
                           .cols = of->cols / half->width,
                           .alpha = 1,
                           .acc = (const char *)memory + (size_t)at * scalar_size(all->type),
                           .ld_acc = part->cols,
                           .pairs = half->width > 1,
                           .conjugate = half->conjugate};
}

/* Mirror what whole rows have below the diagonal of the square of these rows to above it. */
static void complete_square(const struct sketch *all, const struct lower_half *half,
                            const struct block *rows, char *memory)
{
    for (int64_t i = 1; i < rows->rows; i++) {
        const int64_t col = rows->row * half->width;
        const struct block row = {rows->row + i, col, 1, i * half->width};
        struct mirror mirror = mirror_of(all, half, rows, &row, memory);
        mirror.to = memory + (size_t)(col + i * half->width) * scalar_size(all->type);
        mirror.ld_to = rows->cols;
        mirror_cpu(&mirror, 1);
    }
}

/* Add the mirror of the first `cols` columns of a part, whose elements are pairs. */
static void sketch_pairs(const struct sketch *all, const struct lower_half *half,
                         const struct block *part, int64_t cols, void *memory, int threads)
{
    double mirrored[2 * PAIRS * PAIRS];
    for (int64_t i = 0; i < part->rows; i += PAIRS)
        for (int64_t j = 0; j < cols; j += 2 * PAIRS) {
            const struct block of = {part->row + i, part->col + j, min_i64(PAIRS, part->rows - i),
                                     min_i64(2 * PAIRS, cols - j)};
            const struct block becomes = {of.col / 2, of.row * 2, of.cols / 2, of.rows * 2};
            struct mirror mirror = mirror_of(all, half, part, &of, memory);
            mirror.to = mirrored;
            mirror.ld_to = becomes.cols;
            mirror_cpu(&mirror, 1);
            sketch_part(all, &becomes, mirrored, threads);
        }
}

void sketch_lower_part(const struct sketch *all, const struct lower_half *half,
                       const struct block *part, void *memory, int threads)
{
    if (part->rows > 1 && part->cols < half->cols) { /* of chunks: row by row */
        const size_t bytes = (size_t)part->cols * scalar_size(all->type);
        for (int64_t i = 0; i < part->rows; i++) {
            struct block row = {part->row + i, part->col, 1, part->cols};
            sketch_lower_part(all, half, &row, (char *)memory + (size_t)i * bytes, threads);
        }
        return;
    }
    int64_t first = part->row * half->width, end = (part->row + part->rows) * half->width;
    int64_t left = min_i64(max_i64(first - part->col, 0), part->cols);
    int64_t with_square = min_i64(max_i64(end - part->col, 0), part->cols);
    struct sketch mirror = *all;
    mirror.trans = true;
    complete_square(all, half, part, memory);
    sketch_columns(all, part, with_square, memory, threads);
    if (half->width > 1)
        sketch_pairs(all, half, part, left, memory, threads);
    else
        sketch_columns(&mirror, part, left, memory, threads);
}
