/* The micro-kernels for one element type: cpu_kernel.c includes this file with REAL and FMA
 * defined. */

#define NAME(x) JOIN(x, REAL)
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(REAL)))
#define TILE_ROWS (TILE_VECTORS * LANES)
#define LINE ((int64_t)(LINE_BYTES / sizeof(REAL)))

typedef REAL NAME(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL NAME(memory_vector)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

/* k is contiguous: transpose PACK_STEPS k steps of all rows at a time, so that each cache line is
 * used up while it is in L1. */
static inline void NAME(pack_along)(const struct cpu_panel *panel, int64_t width, REAL *to)
{
    const REAL *from = panel->from;
    int64_t p = 0;
    for (; p + PACK_STEPS <= panel->k; p += PACK_STEPS)
        for (int64_t i = 0; i < panel->rows; i++) {
            const REAL *next = from + i * panel->across + p;
            __builtin_prefetch(next + 8 * PACK_STEPS);
            for (int64_t q = 0; q < PACK_STEPS; q++)
                to[(p + q) * width + i] = next[q];
        }
    for (; p < panel->k; p++)
        for (int64_t i = 0; i < panel->rows; i++)
            to[p * width + i] = from[i * panel->across + p];
}

/* Rows are contiguous: copy, and prefetch the next panel. */
static inline void NAME(pack_across)(const struct cpu_panel *panel, int64_t width, REAL *to)
{
    const REAL *from = panel->from;
    for (int64_t p = 0; p < panel->k; p++, from += panel->along, to += width) {
        for (int64_t i = 0; i < width; i += LINE)
            __builtin_prefetch(from + width + i);
        if (panel->rows == width)
            memcpy(to, from, (size_t)width * sizeof *to); /* constant size: vector moves */
        else
            memcpy(to, from, (size_t)panel->rows * sizeof *to);
    }
}

static inline void NAME(pack)(const struct cpu_panel *panel, int64_t width, REAL *to)
{
    if (panel->rows < width)
        memset(to, 0, (size_t)(width * panel->k) * sizeof *to);
    if (panel->across == 1)
        NAME(pack_across)(panel, width, to);
    else
        NAME(pack_along)(panel, width, to);
}

static void NAME(pack_a)(const struct cpu_panel *panel, void *to)
{
    NAME(pack)(panel, TILE_ROWS, to);
}

static void NAME(pack_b)(const struct cpu_panel *panel, void *to)
{
    NAME(pack)(panel, TILE_COLS, to);
}

/* All k steps of one tile, with the accumulators in registers.  `next` is the following tile of C,
 * which is prefetched meanwhile. */
static inline void NAME(tile)(const struct cpu_block *g, const REAL *a, const REAL *b, REAL *c,
                              int64_t ldc, const REAL *next)
{
    NAME(vector) s[TILE_COLS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int64_t j = 0; j < TILE_COLS; j++)
#pragma GCC unroll 8
        for (int64_t v = 0; v < TILE_VECTORS; v++)
            if (g->from_c)
                s[j][v] = *(const NAME(memory_vector) *)(c + j * ldc + v * LANES);
            else
                s[j][v] = (NAME(vector)){0};
    for (int64_t j = 0; j < TILE_COLS; j++)
        for (int64_t i = 0; i < TILE_ROWS + LINE; i += LINE)
            __builtin_prefetch(next + j * g->ldc + i, 1);

    for (int64_t p = g->k; p > 0; p--, a += TILE_ROWS, b += TILE_COLS) {
        NAME(vector) x[TILE_VECTORS];
#pragma GCC unroll 8
        for (int64_t v = 0; v < TILE_VECTORS; v++)
            x[v] = *(const NAME(memory_vector) *)(a + v * LANES);
#pragma GCC unroll 8
        for (int64_t j = 0; j < TILE_COLS; j++)
#pragma GCC unroll 8
            for (int64_t v = 0; v < TILE_VECTORS; v++)
                s[j][v] += x[v] * b[j];
    }

    REAL scale = (REAL)g->scale;
#pragma GCC unroll 8
    for (int64_t j = 0; j < TILE_COLS; j++)
#pragma GCC unroll 8
        for (int64_t v = 0; v < TILE_VECTORS; v++)
            *(NAME(memory_vector) *)(c + j * ldc + v * LANES) = s[j][v] * scale;
}

/* A tile that extends beyond the edge of C is computed in a copy. */
static void NAME(edge_tile)(const struct cpu_block *g, const REAL *a, const REAL *b, REAL *c,
                            int64_t rows, int64_t cols)
{
    REAL copy[TILE_COLS * TILE_ROWS] __attribute__((aligned(LINE_BYTES))) = {0};
    size_t bytes = (size_t)(rows < TILE_ROWS ? rows : TILE_ROWS) * sizeof *c;
    for (int64_t j = 0; j < TILE_COLS && j < cols && g->from_c; j++)
        memcpy(copy + j * TILE_ROWS, c + j * g->ldc, bytes);
    NAME(tile)(g, a, b, copy, TILE_ROWS, c);
    for (int64_t j = 0; j < TILE_COLS && j < cols; j++)
        memcpy(c + j * g->ldc, copy + j * TILE_ROWS, bytes);
}

/* The macro-kernel, down columns of tiles: the panel of op(B) stays in L1, the panels of op(A)
 * stream from L2. */
static void NAME(multiply)(const struct cpu_block *g)
{
    for (int64_t j = 0; j < g->cols; j += TILE_COLS)
        for (int64_t i = 0; i < g->rows && i < g->reach + j + TILE_COLS; i += TILE_ROWS) {
            const REAL *a = (const REAL *)g->a + i * g->k;
            const REAL *b = (const REAL *)g->b + j * g->k;
            REAL *c = (REAL *)g->c + i + j * g->ldc;
            int64_t rows = g->rows - i, cols = g->cols - j;
            const REAL *next = rows > TILE_ROWS ? c + TILE_ROWS : c - i + TILE_COLS * g->ldc;
            if (rows < TILE_ROWS || cols < TILE_COLS)
                NAME(edge_tile)(g, a, b, c, rows, cols);
            else
                NAME(tile)(g, a, b, c, g->ldc, next);
        }
}

/* omp simd is valid: out equals x or y, or overlaps neither. */
static void NAME(combine)(int64_t n, double alpha, const void *x, double beta, const void *y,
                          void *out)
{
    const REAL a = (REAL)alpha, b = (REAL)beta, *xs = x, *ys = y;
    REAL *to = out;
    if (!xs && !ys)
        memset(to, 0, (size_t)n * sizeof *to);
    else if (!ys)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = a * xs[i];
    else if (!xs)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = b * ys[i];
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = FMA(a, xs[i], b * ys[i]);
}

static void NAME(combine_pairs)(int64_t n, const double alpha[2], const void *x,
                                const double beta[2], const void *y, void *out)
{
    const REAL a = (REAL)alpha[0], ai = (REAL)alpha[1], b = (REAL)beta[0], bi = (REAL)beta[1];
    const REAL *xs = x, *ys = y;
    REAL *to = out;
    for (int64_t i = 0; i < 2 * n; i += 2) {
        REAL r = 0, s = 0;
        if (ys) {
            r = FMA(b, ys[i], -(bi * ys[i + 1]));
            s = FMA(b, ys[i + 1], bi * ys[i]);
        }
        if (xs) {
            const REAL xr = xs[i], xi = xs[i + 1];
            r = FMA(a, xr, FMA(-ai, xi, r));
            s = FMA(a, xi, FMA(ai, xr, s));
        }
        to[i] = r;
        to[i + 1] = s;
    }
}

#undef LANES
#undef TILE_ROWS
#undef LINE
#undef NAME
