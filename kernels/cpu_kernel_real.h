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

/* Whether sums and squares include the element. */
static inline bool NAME(is_counted)(REAL element, double weight, double largest)
{
    return fabs((double)element) <= largest && weight != 0;
}

typedef REAL NAME(memory_elements)
    __attribute__((vector_size(DOUBLES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

/* Add CLASSES_MAX elements of a row, one per lane; `odd` counts the excluded ones. */
static inline __attribute__((always_inline)) void NAME(add_lanes)(const REAL *row,
                                                                  const double *weights,
                                                                  double largest, doubles *sums,
                                                                  doubles *squares, bits *odd)
{
#pragma GCC unroll 32
    for (int v = 0; v < LANE_VECTORS; v++, row += DOUBLES, weights += DOUBLES) {
        doubles m = __builtin_convertvector(*(const NAME(memory_elements) *)row, doubles);
        doubles weight = *(const memory_doubles *)weights;
        bits counts = ((bits)(absolute(m) <= largest)) & ((bits)(weight != 0));
        m = (doubles)((bits)m & counts);
        sums[v] += m * weight;
        squares[v] += m * m;
        *odd -= ~counts;
    }
}

/* The remainder of a row, padded with zeros of weight 1, which change no sum. */
static void NAME(sketch_rest)(int64_t n, const REAL *row, const double *weights, double largest,
                              doubles *sums, doubles *squares, bits *odd)
{
    REAL elements[CLASSES_MAX] = {0};
    double factors[CLASSES_MAX];
    for (int64_t l = 0; l < CLASSES_MAX; l++) {
        elements[l] = l < n ? row[l] : 0;
        factors[l] = l < n ? weights[l] : 1;
    }
    NAME(add_lanes)(elements, factors, largest, sums, squares, odd);
}

static int64_t NAME(sketch_row)(const struct sketch *s, int64_t i, double largest, double *sums,
                                double *squares)
{
    const REAL *row = (const REAL *)s->matrix + i * s->ld;
    doubles sum[LANE_VECTORS] = {{0}}, square[LANE_VECTORS] = {{0}};
    bits odd = {0};
    int64_t j = 0, count = 0;
    for (; j + CLASSES_MAX <= s->cols; j += CLASSES_MAX)
        NAME(add_lanes)(row + j, s->weights + j, largest, sum, square, &odd);
    if (j < s->cols)
        NAME(sketch_rest)(s->cols - j, row + j, s->weights + j, largest, sum, square, &odd);
    memcpy(sums, sum, sizeof sum);
    memcpy(squares, square, sizeof square);
    for (int l = 0; l < DOUBLES; l++)
        count += odd[l];
    return count;
}

/* One lane of the rows, down the columns `cols`: a separate chain of additions, which is then added
 * to `sums`. */
static int64_t NAME(sketch_cols)(const struct sketch *s, struct range cols, int64_t lane,
                                 double largest, double *restrict sums, double *restrict squares)
{
    double chain[SKETCH_PIECE] = {0};
    int64_t odd = 0;
    for (int64_t r = lane; r < s->rows; r += CLASSES_MAX) {
        const REAL *row = (const REAL *)s->matrix + r * s->ld + cols.begin;
        double weight = s->weights[r];
#pragma omp simd reduction(+ : odd)
        for (int64_t l = 0; l < cols.count; l++) {
            bool counts = NAME(is_counted)(row[l], weight, largest);
            double m = counts ? (double)row[l] : 0;
            chain[l] += m * weight;
            squares[l] += m * m;
            odd += !counts;
        }
    }
    for (int64_t l = 0; l < cols.count; l++)
        sums[l] += chain[l];
    return odd;
}

/* y += M x for some rows, over one chain of k steps.  `across` and `along` are the strides between
 * rows and between k steps.  Rows and classes are constants after inlining, so that all sums stay
 * in registers. */
static inline __attribute__((always_inline)) void
NAME(project_chain)(const REAL *m, int64_t across, int64_t along, int64_t k, const int rows,
                    const int classes, const double *x, double *restrict y)
{
    double chain[CHAIN_ROWS][CLASSES_MAX];
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < classes; c++)
            chain[i][c] = 0;
    for (int64_t p = 0; p < k; p++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            double element = m[i * across + p * along];
#pragma omp simd
            for (int c = 0; c < classes; c++)
                chain[i][c] += element * x[p * classes + c];
        }
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < classes; c++)
            y[i * classes + c] += chain[i][c];
}

/* With few classes several rows fit into registers; their independent sums hide the latency of
 * the additions. */
static inline __attribute__((always_inline)) void
NAME(project_rows)(const REAL *m, int64_t across, int64_t along, int64_t k, int64_t rows,
                   const int classes, const double *x, double *y)
{
    int64_t i = 0;
    for (; classes <= 16 && i + CHAIN_ROWS <= rows; i += CHAIN_ROWS)
        NAME(project_chain)
    (m + i * across, across, along, k, CHAIN_ROWS, classes, x, y + i * classes);
    for (; i < rows; i++)
        NAME(project_chain)(m + i * across, across, along, k, 1, classes, x, y + i * classes);
}

/* The sum of squares of the same elements; x - x makes it NaN unless all are finite. */
static double NAME(square_chain)(const REAL *m, int64_t along, int64_t k)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t p = 0; p < k; p++) {
        double x = m[p * along];
        sum += x * x + (x - x);
    }
    return sum;
}

/* A block of op(M) that stays in L1 for the products and the squares. */
static void NAME(project_block)(const struct project *p, struct range rows, struct range k)
{
    int64_t across = p->trans ? 1 : p->ld, along = p->trans ? p->ld : 1;
    const REAL *m = (const REAL *)p->matrix + rows.begin * across + k.begin * along;
    const double *x = p->x + k.begin * p->classes;
    double *y = p->y + rows.begin * p->classes;
    switch (p->classes) {
    case 1: NAME(project_rows)(m, across, along, k.count, rows.count, 1, x, y); break;
    case 2: NAME(project_rows)(m, across, along, k.count, rows.count, 2, x, y); break;
    case 4: NAME(project_rows)(m, across, along, k.count, rows.count, 4, x, y); break;
    case 8: NAME(project_rows)(m, across, along, k.count, rows.count, 8, x, y); break;
    case 16: NAME(project_rows)(m, across, along, k.count, rows.count, 16, x, y); break;
    case 32: NAME(project_rows)(m, across, along, k.count, rows.count, 32, x, y); break;
    default: NAME(project_rows)(m, across, along, k.count, rows.count, CLASSES_MAX, x, y); break;
    }
    for (int64_t i = 0; i < rows.count; i++)
        p->squares[rows.begin + i] += NAME(square_chain)(m + i * across, along, k.count);
}

#undef NAME
#undef LANES
#undef TILE_ROWS
#undef LINE
