/* The loops of the product check for one element type: cpu_kernel.c includes this file with REAL
 * defined. */

#define NAME(x) JOIN(x, REAL)

/* Whether sums and squares include the element. */
static inline bool NAME(is_counted)(REAL element, double weight, double largest)
{
    return fabs((double)element) <= largest && weight != 0;
}

typedef REAL NAME(memory_elements)
    __attribute__((vector_size(DOUBLES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

/* Add so many vectors of elements of a row, one per lane; `odd` counts the excluded ones. */
static inline __attribute__((always_inline)) void
NAME(add_lanes)(const REAL *row, const double *weights, const int vectors, double largest,
                doubles *sums, doubles *squares, bits *odd)
{
#pragma GCC unroll 32
    for (int v = 0; v < vectors; v++, row += DOUBLES, weights += DOUBLES) {
        doubles m = __builtin_convertvector(*(const NAME(memory_elements) *)row, doubles);
        doubles weight = *(const memory_doubles *)weights;
        bits counts = ((bits)(absolute(m) <= largest)) & ((bits)(weight != 0));
        m = (doubles)((bits)m & counts);
        sums[v] += m * weight;
        squares[v] += m * m;
        *odd -= ~counts;
    }
}

/* The remainder of a row, its last vector padded with zeros of weight 1, which change no sum. */
static void NAME(sketch_rest)(int64_t n, const REAL *row, const double *weights, double largest,
                              doubles *sums, doubles *squares, bits *odd)
{
    const int64_t whole = n / DOUBLES, left = n % DOUBLES;
    REAL elements[DOUBLES] = {0};
    double factors[DOUBLES];
    for (int64_t v = 0; v < whole; v++, row += DOUBLES, weights += DOUBLES)
        NAME(add_lanes)(row, weights, 1, largest, sums + v, squares + v, odd);
    for (int64_t l = 0; l < DOUBLES; l++) {
        elements[l] = l < left ? row[l] : 0;
        factors[l] = l < left ? weights[l] : 1;
    }
    if (left > 0)
        NAME(add_lanes)(elements, factors, 1, largest, sums + whole, squares + whole, odd);
}

static int64_t NAME(sketch_row)(const struct sketch *s, int64_t i, double largest, int lanes,
                                double *sums, double *squares)
{
    const REAL *row = (const REAL *)s->matrix + i * s->ld;
    doubles sum[LANE_VECTORS], square[LANE_VECTORS];
    bits odd = {0};
    int64_t j = 0, count = 0;
    for (int64_t l = 0; l < s->cols; l += LINE_BYTES / (int64_t)sizeof(REAL))
        __builtin_prefetch(row + ROWS_AHEAD * s->ld + l);
#pragma GCC unroll 32
    for (int v = 0; v < LANE_VECTORS; v++)
        sum[v] = square[v] = (doubles){0};
    for (; j + CLASSES_MAX <= s->cols; j += CLASSES_MAX)
        NAME(add_lanes)(row + j, s->weights + j, LANE_VECTORS, largest, sum, square, &odd);
    if (j < s->cols)
        NAME(sketch_rest)(s->cols - j, row + j, s->weights + j, largest, sum, square, &odd);
    join_lanes_of(sum, lanes, sums);
    join_lanes_of(square, lanes, squares);
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

static void NAME(project_classes)(const struct project *p, const REAL *m, int64_t across,
                                  int64_t along, struct range rows, struct range k)
{
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
}

/* A block of op(M) that stays in L1 for the products and the squares. */
static void NAME(project_block)(const struct project *p, struct range rows, struct range k)
{
    int64_t across = p->trans ? 1 : p->ld, along = p->trans ? p->ld : 1;
    const REAL *m = (const REAL *)p->matrix + rows.begin * across + k.begin * along;
    if (p->absolute) {
        double sizes[FREIVALDS_CHAIN * FREIVALDS_CHAIN] = {0};
        for (int64_t i = 0; i < rows.count; i++)
            for (int64_t s = 0; s < k.count; s++)
                sizes[i * k.count + s] = fabs((double)m[i * across + s * along]);
        JOIN(project_classes, double)(p, sizes, k.count, 1, rows, k);
    } else {
        NAME(project_classes)(p, m, across, along, rows, k);
    }
    for (int64_t i = 0; i < rows.count && p->squares; i++)
        p->squares[rows.begin + i] += NAME(square_chain)(m + i * across, along, k.count);
}

#undef NAME
