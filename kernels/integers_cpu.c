/* Exact products of integers on the CPU (integers.h): bytes as numbers of 16 bits, of which CPUs
 * multiply many at a time and add neighbours. */
#include "integers.h"

#include <string.h>

#include "cpu_kernel.h"

/* Rows of op(A), and columns of op(B), that are planes at a time, at least and at most; steps of k;
 * and lines that a thread multiplies at a time. */
enum { LINES_LEAST = 16, LINES_MOST = 256, STEPS = 512, PIECE = 16, PLANES = 2 };

static size_t bytes_for(int64_t lines)
{
    return 2 * PLANES * STEPS * sizeof(int16_t) * (size_t)lines;
}

size_t integers_cpu_workspace(size_t most)
{
    int64_t lines = LINES_MOST;
    while (lines > LINES_LEAST && bytes_for(lines) > most)
        lines /= 2;
    return bytes_for(lines);
}

/* op(A) or op(B), seen as lines of k elements each. */
struct byte_lines {
    enum scalar type;
    const void *memory;
    int64_t across, along; /* elements from one line to the next, and from one k step to the next */
};

/* A line of bytes is a plane; one of 16 bits two, of which the second is behind the first. */
#define SPLIT_BYTES(type)                                                                          \
    for (int64_t p = 0; p < k.count; p++)                                                          \
    to[p] = ((const type *)from->memory)[first + p * from->along]
#define SPLIT_WORDS(type)                                                                          \
    for (int64_t p = 0; p < k.count; p++) {                                                        \
        const int32_t x = ((const type *)from->memory)[first + p * from->along];                   \
        to[p] = (int16_t)(x & 255);                                                                \
        to[STEPS + p] = (int16_t)(x >> 8);                                                         \
    }

static void split(const struct byte_lines *from, int64_t line, struct range k, int16_t *to)
{
    const int64_t first = line * from->across + k.begin * from->along;
    switch (from->type) {
    case SCALAR_INT8: SPLIT_BYTES(int8_t); break;
    case SCALAR_UINT8: SPLIT_BYTES(uint8_t); break;
    case SCALAR_INT16: SPLIT_WORDS(int16_t) break;
    default: SPLIT_WORDS(uint16_t) break;
    }
}

/* A part of C and some steps of k, and its lines' planes. */
struct byte_tile {
    const struct gemm *g;
    struct byte_lines a, b;
    struct range rows, cols, k;
    int16_t (*planes_a)[PLANES][STEPS], (*planes_b)[PLANES][STEPS];
};

static void multiply_piece(const struct byte_tile *t, int64_t i, int64_t j)
{
    const int64_t rows = t->rows.count - i, cols = t->cols.count - j;
    double *c = (double *)t->g->c + t->rows.begin + i + (t->cols.begin + j) * t->g->ldc;
    struct cpu_bytes piece = {.rows = rows < PIECE ? rows : PIECE,
                              .cols = cols < PIECE ? cols : PIECE,
                              .k = t->k.count,
                              .pitch = PLANES * STEPS,
                              .ldc = t->g->ldc,
                              .c = c};
    for (int64_t q = 0; q < piece.cols && t->k.begin == 0 && t->g->beta == 0; q++)
        memset(c + q * t->g->ldc, 0, (size_t)piece.rows * sizeof *c);
    for (int p = 0; p < integers_planes(t->a.type); p++)
        for (int q = 0; q < integers_planes(t->b.type); q++) {
            piece.a = t->planes_a[i][p];
            piece.b = t->planes_b[j][q];
            piece.scale = (double)(1 << 8 * (p + q));
            cpu_kernels(0)[t->a.type].multiply_bytes(&piece);
        }
}

/* All threads together. */
static void tile_multiply(const struct byte_tile *t)
{
#pragma omp for nowait
    for (int64_t i = 0; i < t->rows.count; i++)
        split(&t->a, t->rows.begin + i, t->k, t->planes_a[i][0]);
#pragma omp for
    for (int64_t j = 0; j < t->cols.count; j++)
        split(&t->b, t->cols.begin + j, t->k, t->planes_b[j][0]);
#pragma omp for collapse(2) schedule(dynamic)
    for (int64_t j = 0; j < t->cols.count; j += PIECE)
        for (int64_t i = 0; i < t->rows.count; i += PIECE)
            multiply_piece(t, i, j);
}

static struct range part(int64_t begin, int64_t length, int64_t end)
{
    return (struct range){begin, begin + length < end ? length : end - begin};
}

void integers_cpu(const struct gemm *g, const struct integers *how, int threads)
{
    const struct byte_lines a = {how->a, g->a, g->trans_a ? g->lda : 1, g->trans_a ? 1 : g->lda};
    const struct byte_lines b = {how->b, g->b, g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1};
    const int64_t lines = (int64_t)(integers_cpu_workspace(how->bytes) / bytes_for(1));
    int16_t(*planes)[PLANES][STEPS] = how->workspace;
    for (int64_t j = 0; j < g->n && g->k == 0 && g->beta == 0; j++)
        memset((double *)g->c + j * g->ldc, 0, (size_t)g->m * sizeof(double));
#pragma omp parallel num_threads(threads) if (threads > 1)
    for (int64_t p = 0; p < g->k; p += STEPS)
        for (int64_t j = 0; j < g->n; j += lines)
            for (int64_t i = 0; i < g->m; i += lines) {
                const struct byte_tile tile = {g,
                                          a,
                                          b,
                                          part(i, lines, g->m),
                                          part(j, lines, g->n),
                                          part(p, STEPS, g->k),
                                          planes,
                                          planes + lines};
                tile_multiply(&tile);
            }
}
