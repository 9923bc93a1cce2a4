/* The inner loops for one element type: cpu_kernel.c includes this with REAL and its FMA
 * defined. */

#define NAME(x) JOIN(x, REAL)
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(REAL)))
#define TILE_ROWS (TILE_VECTORS * LANES)
#define LINE ((int64_t)(LINE_BYTES / sizeof(REAL)))

typedef REAL NAME(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL NAME(memory_vector)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(memory_elements)
    __attribute__((vector_size(DOUBLES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

/* k is contiguous: transpose, a few k steps of all rows at a time, so that lines are used while
 * they are in the first-level cache. */
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

/* Rows are contiguous: copy, and call for what the next panel is going to copy. */
static inline void NAME(pack_across)(const struct cpu_panel *panel, int64_t width, REAL *to)
{
    const REAL *from = panel->from;
    for (int64_t p = 0; p < panel->k; p++, from += panel->along, to += width) {
        for (int64_t i = 0; i < width; i += LINE)
            __builtin_prefetch(from + width + i);
        if (panel->rows == width)
            memcpy(to, from, (size_t)width * sizeof *to); /* of a constant size: a few vectors */
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

/* All k steps of one tile, its sums in registers.  `next` is the tile to come: its lines are on
 * their way from memory while this one is computed. */
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

/* A tile that reaches over the edge of C is computed in a copy. */
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

/* Down the columns of tiles: the panel of op(B) stays in the first-level cache, those of op(A)
 * come from the second. */
static void NAME(multiply)(const struct cpu_block *g)
{
    for (int64_t j = 0; j < g->cols; j += TILE_COLS)
        for (int64_t i = 0; i < g->rows; i += TILE_ROWS) {
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

/* The simd pragmas promise that out is x or y, or apart from both. */
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

/* DOT_LANES products.  w null: |x|. */
static inline void NAME(dot_step)(const REAL *row, const double *x, const double *w,
                                  doubles s[2][DOT_VECTORS])
{
#pragma GCC unroll 8
    for (int64_t v = 0; v < DOT_VECTORS; v++, row += DOUBLES, x += DOUBLES) {
        doubles element = __builtin_convertvector(*(const NAME(memory_elements) *)row, doubles);
        doubles factor = *(const memory_doubles *)x;
        doubles weight = absolute(factor);
        if (w)
            weight = *(const memory_doubles *)(w + v * DOUBLES);
        s[0][v] += element * factor;
        s[1][v] += absolute(element) * weight;
    }
}

/* What is left is filled up with zeros, which change no sum. */
static void NAME(dot_rest)(int64_t n, const REAL *row, const double *x, const double *w,
                           doubles s[2][DOT_VECTORS])
{
    REAL row_copy[DOT_LANES] = {0};
    double copy[2][DOT_LANES] = {{0}};
    memcpy(row_copy, row, (size_t)n * sizeof *row);
    memcpy(copy[0], x, (size_t)n * sizeof *x);
    memcpy(copy[1], w ? w : x, (size_t)n * sizeof *x);
    NAME(dot_step)(row_copy, copy[0], w ? copy[1] : NULL, s);
}

static void NAME(project_row)(const struct project *p, int64_t i, double sum[2])
{
    const REAL *row = (const REAL *)p->matrix + i * p->ld;
    const double *x = p->x, *w = p->x_abs;
    doubles s[2][DOT_VECTORS] = {{{0}}};
    int64_t j = 0;
    for (; j + DOT_LANES <= p->cols; j += DOT_LANES) {
        for (int64_t l = 0; l < DOT_LANES; l += LINE)
            __builtin_prefetch((const char *)(row + j + l) + AHEAD_BYTES);
        if (w)
            NAME(dot_step)(row + j, x + j, w + j, s);
        else
            NAME(dot_step)(row + j, x + j, NULL, s);
    }
    NAME(dot_rest)(p->cols - j, row + j, x + j, w ? w + j : NULL, s);
    sum[0] = sum[1] = 0;
    for (j = 0; j < DOT_LANES; j++) {
        sum[0] += s[0][j / DOUBLES][j % DOUBLES];
        sum[1] += s[1][j / DOUBLES][j % DOUBLES];
    }
}

/* Add `count` rows, scaled; w null: by |x|. */
static inline void NAME(add_rows)(const struct project *p, int64_t i, int count, struct range cols,
                                  double *plain, double *magnitude)
{
    const REAL *rows = (const REAL *)p->matrix + i * p->ld + cols.begin;
    double x[ROWS], w[ROWS];
    for (int r = 0; r < count; r++) {
        x[r] = p->x[i + r];
        w[r] = p->x_abs ? p->x_abs[i + r] : fabs(x[r]);
    }
#pragma omp simd
    for (int64_t j = 0; j < cols.count; j++) {
        double s = plain[j], t = magnitude[j];
        for (int r = 0; r < count; r++) {
            double element = rows[r * p->ld + j];
            s += x[r] * element;
            t += w[r] * fabs(element);
        }
        plain[j] = s;
        magnitude[j] = t;
    }
}

/* Several rows at a time, since the sums go to the cache and back for each. */
static void NAME(project_cols)(const struct project *p, struct range cols, double *plain,
                               double *magnitude)
{
    int64_t i = 0;
    for (; i + ROWS <= p->rows; i += ROWS)
        NAME(add_rows)(p, i, ROWS, cols, plain, magnitude);
    for (; i < p->rows; i++)
        NAME(add_rows)(p, i, 1, cols, plain, magnitude);
}

#undef NAME
#undef LANES
#undef TILE_ROWS
#undef LINE
