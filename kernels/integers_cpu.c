/* Exact products of integers on the CPU (integers.h): bytes as numbers of 16 bits, of which CPUs
 * multiply many at a time and add neighbours along k. */
#include "integers.h"

#include <string.h>

#include "cpu_kernel.h"

/* Rows of op(A), and columns of op(B), that are planes at a time, at least and at most; steps of k;
 * and lines that a thread multiplies at a time.  All lines are multiples of all tiles' sides. */
enum { LINES_LEAST = 32, LINES_MOST = 512, STEPS = 512, PIECE = 32 };
enum { PAIRS = STEPS / 2, SPLIT_PAIRS = 8 }; /* those of a line that are split at a time */

/* Planes of the wider operand. */
static int most_planes(enum scalar a, enum scalar b)
{
    return integers_planes(a) > integers_planes(b) ? integers_planes(a) : integers_planes(b);
}

static size_t bytes_for(int planes, int64_t lines)
{
    return 2 * (size_t)planes * STEPS * sizeof(int16_t) * (size_t)lines;
}

size_t integers_cpu_workspace(enum scalar a, enum scalar b, size_t most)
{
    const int planes = most_planes(a, b);
    int64_t lines = LINES_MOST;
    while (lines > LINES_LEAST && bytes_for(planes, lines) > most)
        lines /= 2;
    return bytes_for(planes, lines);
}

/* op(A) or op(B), seen as lines of k elements each. */
struct byte_lines {
    enum scalar type;
    const void *memory;
    int64_t across, along; /* elements from one line to the next, and from one k step to the next */
};

/* So many lines from the first one become a panel (cpu_kernel.h). */
struct byte_panel {
    const struct byte_lines *from;
    int64_t first, lines, width; /* `lines` of the `width` lines of the panel exist */
    int planes;                  /* that a line has room for */
    struct range k;
    int32_t *to;
};

static inline int32_t pair_of(int32_t first, int32_t second)
{
    return (int32_t)((uint32_t)(uint16_t)first | (uint32_t)second << 16);
}

/* The bytes of a line are planes, one behind the other. */
#define SPLIT(type)                                                                                \
    for (int64_t p = begin; p < end; p++) {                                                        \
        const type *at = (const type *)s->from->memory + first + 2 * p * s->from->along;           \
        const int64_t x = *at, y = 2 * p + 1 < s->k.count ? at[s->from->along] : 0;                \
        int32_t *to = s->to + p * s->width + line;                                                 \
        const int top = (int)sizeof(type) - 1;                                                     \
        for (int byte = 0; byte < top; byte++, to += PAIRS * s->width)                             \
            *to = pair_of((int32_t)(x >> 8 * byte & 255), (int32_t)(y >> 8 * byte & 255));         \
        *to = pair_of((int32_t)(x >> 8 * top), (int32_t)(y >> 8 * top));                           \
    }

static void split_line(const struct byte_panel *s, int64_t line, int64_t begin, int64_t end)
{
    const int64_t first = (s->first + line) * s->from->across + s->k.begin * s->from->along;
    switch (s->from->type) {
    case SCALAR_INT8: SPLIT(int8_t) break;
    case SCALAR_UINT8: SPLIT(uint8_t) break;
    case SCALAR_INT16: SPLIT(int16_t) break;
    case SCALAR_UINT16: SPLIT(uint16_t) break;
    case SCALAR_INT32: SPLIT(int32_t) break;
    default: SPLIT(uint32_t) break;
    }
}

/* Some pairs of all lines at a time, so that each cache line is used up while it is in L1. */
static void split(const struct byte_panel *s)
{
    const int64_t pairs = (s->k.count + 1) / 2;
    if (s->lines < s->width)
        memset(s->to, 0, (size_t)(s->planes * PAIRS * s->width) * sizeof *s->to);
    for (int64_t p = 0; p < pairs; p += SPLIT_PAIRS)
        for (int64_t i = 0; i < s->lines; i++)
            split_line(s, i, p, p + SPLIT_PAIRS < pairs ? p + SPLIT_PAIRS : pairs);
}

/* A part of C and some steps of k, and the planes of its lines: panels one after another. */
struct byte_tile {
    const struct gemm *g;
    const struct cpu_kernel *kernel;
    struct byte_lines a, b;
    struct range rows, cols, k;
    int planes; /* that a line of either has room for */
    int32_t *planes_a, *planes_b;
};

/* Plane 0 of a panel, which begins with a line. */
static int32_t *panel_of(const struct byte_tile *t, int32_t *planes, int64_t line)
{
    return planes + line * t->planes * PAIRS;
}

static void multiply_tile(const struct byte_tile *t, int64_t i, int64_t j)
{
    const int64_t height = t->kernel->tile_rows, width = t->kernel->tile_cols;
    const int64_t rows = t->rows.count - i, cols = t->cols.count - j;
    uint64_t *c = (uint64_t *)t->g->c + t->rows.begin + i + (t->cols.begin + j) * t->g->ldc;
    struct cpu_bytes tile = {.rows = rows < height ? rows : height,
                             .cols = cols < width ? cols : width,
                             .pairs = (t->k.count + 1) / 2,
                             .ldc = t->g->ldc,
                             .c = c};
    for (int64_t q = 0; q < tile.cols && t->k.begin == 0 && t->g->beta == 0; q++)
        memset(c + q * t->g->ldc, 0, (size_t)tile.rows * sizeof *c);
    for (int p = 0; p < integers_planes(t->a.type); p++)
        for (int q = 0; q < integers_planes(t->b.type); q++) {
            tile.a = panel_of(t, t->planes_a, i) + p * height * PAIRS;
            tile.b = panel_of(t, t->planes_b, j) + q * width * PAIRS;
            tile.shift = 8 * (p + q);
            t->kernel->multiply_bytes(&tile);
        }
}

static void multiply_piece(const struct byte_tile *t, int64_t i, int64_t j)
{
    const struct cpu_kernel *kernel = t->kernel;
    for (int64_t q = j; q < j + PIECE && q < t->cols.count; q += kernel->tile_cols)
        for (int64_t p = i; p < i + PIECE && p < t->rows.count; p += kernel->tile_rows)
            multiply_tile(t, p, q);
}

/* All threads together; the last barrier is the caller's. */
static void split_lines(const struct byte_tile *t, const struct byte_lines *from,
                        struct range lines, int64_t width, int32_t *planes)
{
#pragma omp for nowait
    for (int64_t i = 0; i < lines.count; i += width) {
        const int64_t count = lines.count - i;
        const struct byte_panel panel = {
            from, lines.begin + i,       count < width ? count : width, width, t->planes,
            t->k, panel_of(t, planes, i)};
        split(&panel);
    }
}

/* All threads together.  The planes of op(B) are those of the tile before, unless it is the first
 * one of its columns and steps. */
static void tile_multiply(const struct byte_tile *t)
{
    if (t->rows.begin == 0)
        split_lines(t, &t->b, t->cols, t->kernel->tile_cols, t->planes_b);
    split_lines(t, &t->a, t->rows, t->kernel->tile_rows, t->planes_a);
#pragma omp barrier
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
    const int room = most_planes(how->a, how->b);
    const size_t bytes = integers_cpu_workspace(how->a, how->b, how->bytes);
    const int64_t lines = (int64_t)(bytes / bytes_for(room, 1));
    int32_t *planes = how->workspace;
    for (int64_t j = 0; j < g->n && g->k == 0 && g->beta == 0; j++)
        memset((uint64_t *)g->c + j * g->ldc, 0, (size_t)g->m * sizeof(uint64_t));
#pragma omp parallel num_threads(threads) if (threads > 1)
    for (int64_t p = 0; p < g->k; p += STEPS)
        for (int64_t j = 0; j < g->n; j += lines)
            for (int64_t i = 0; i < g->m; i += lines) {
                const struct byte_tile tile = {g,
                                               &cpu_kernels(0)[how->a],
                                               a,
                                               b,
                                               part(i, lines, g->m),
                                               part(j, lines, g->n),
                                               part(p, STEPS, g->k),
                                               room,
                                               planes,
                                               planes + lines * room * PAIRS};
                tile_multiply(&tile);
            }
}
