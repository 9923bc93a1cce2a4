/* The operations of the product check on the CPU.  Threads divide the lines among them and never
 * split a sum, so that the sums do not depend on the number of threads. */
#include "freivalds_judge.h"

#include <string.h>

#include "cpu_kernel.h"
#include "freivalds_exact.h"
#include "quantity.h"

enum {
    BLOCK = FREIVALDS_CHAIN, /* rows, and steps of k, of a block that fits L1 */
    UNIT = 8,                /* rows of which blocks are made: a line of memory */
};

static double element_at(const struct sketch *s, int64_t row, int64_t col)
{
    int64_t at = row * s->ld + col;
    if (scalar_is_integer(s->type)) /* whatever it is, it is finite and not large */
        return 0;
    return scalar_get(s->type, s->matrix, at);
}

/* Leave out the column of a factor's element that is too large or not finite. */
static void leave_out(const struct sketch *s, int64_t j, double element)
{
    enum left_out why = fabs(element) <= DBL_MAX ? LEFT_OUT_LARGE : LEFT_OUT_NOT_FINITE;
    if (fabs(element) <= FREIVALDS_LARGEST)
        return;
#pragma omp critical(freivalds_left_out)
    {
        if (s->left_out[j] < (int)why)
            s->left_out[j] = (int)why;
        if (s->weights[j] != 0)
            *s->found = s->tag;
    }
}

/* What element j of a line of the product adds to `odd`. */
static double oddity(const struct sketch *s, int64_t j, double element)
{
    bool finite = fabs(element) <= DBL_MAX;
    if (s->weights[j] != 0)
        return !finite;
    bool wrong = finite && !s->partial && s->left_out[j] == LEFT_OUT_NOT_FINITE;
    return wrong ? FREIVALDS_WRONG : 0;
}

/* Go through class c of a line again, since the fast loop has excluded elements.  Returns what the
 * line adds to `odd`. */
static double rescan(const struct sketch *s, int64_t line, int c)
{
    int64_t length = s->trans ? s->rows : s->cols;
    double odd = 0;
    for (int64_t j = 0; j < length; j++) {
        double element = s->trans ? element_at(s, j, line) : element_at(s, line, j);
        if (freivalds_class(j, s->deal, s->classes) != c)
            continue;
        if (s->odd)
            odd += oddity(s, j, element);
        else
            leave_out(s, j, element);
    }
    return odd;
}

/* The class of the first element, by shifts: divisions would take as long as a short line. */
static int first_class(const struct sketch *s)
{
    return (int)(s->first >> __builtin_ctz((unsigned)s->deal)) & (s->classes - 1);
}

/* Store the sums of a line's class; c is relative to the class of the first element. */
static void keep(const struct sketch *s, int64_t line, int c, double sum, double square, bool again)
{
    int64_t at = line * s->classes + ((first_class(s) + c) & (s->classes - 1));
    double odd = again ? rescan(s, line, c) : 0;
    s->sums[at] = sum + (s->accumulate ? s->sums[at] : 0);
    s->squares[at] = square + (s->accumulate ? s->squares[at] : 0);
    if (s->odd)
        s->odd[at] = odd + (s->accumulate ? s->odd[at] : 0);
}

/* Sums over lanes, one per line of a class. */
struct lane_totals {
    double sums[SKETCH_PIECE], squares[SKETCH_PIECE];
    bool again; /* elements were excluded: rescan */
};

/* The deal from element `at` of all lines on, which belongs to one class. */
static struct sketch deal_of(const struct sketch *s, int64_t at)
{
    struct sketch deal = *s;
    int64_t count = min_i64(s->deal, (s->trans ? s->rows : s->cols) - at);
    deal.matrix =
        (const char *)s->matrix + (size_t)(at * (s->trans ? s->ld : 1)) * scalar_size(s->type);
    deal.weights += at;
    *(s->trans ? &deal.rows : &deal.cols) = count;
    return deal;
}

/* A line whose classes change from deal to deal. */
static void sketch_deals(const struct sketch *s, int64_t i, double largest)
{
    double sums[CLASSES_MAX] = {0}, squares[CLASSES_MAX] = {0};
    bool again = false;
    for (int64_t at = 0; at < s->cols; at += s->deal) {
        const struct sketch deal = deal_of(s, at);
        const int c = freivalds_class(at, s->deal, s->classes);
        double sum[CLASSES_MAX], square[CLASSES_MAX]; /* whole vectors are stored */
        again |= cpu_kernels(0)[s->type].sketch_row(&deal, i, largest, 1, sum, square) > 0;
        sums[c] += sum[0];
        squares[c] += square[0];
    }
    for (int c = 0; c < s->classes; c++)
        keep(s, i, c, sums[c], squares[c], again);
}

static void sketch_row(const struct sketch *s, int64_t i, double largest)
{
    double sums[CLASSES_MAX], squares[CLASSES_MAX];
    if (s->deal > 1) {
        sketch_deals(s, i, largest);
        return;
    }
    const bool again =
        cpu_kernels(0)[s->type].sketch_row(s, i, largest, s->classes, sums, squares) > 0;
    for (int c = 0; c < s->classes; c++)
        keep(s, i, c, sums[c], squares[c], again);
}

/* Add the lanes first, first + step, ... of some columns. */
static void add_columns(const struct sketch *s, struct range cols, int first, int step,
                        double largest, struct lane_totals *t)
{
    for (int lane = first; lane < CLASSES_MAX; lane += step)
        t->again |=
            cpu_kernels(0)[s->type].sketch_cols(s, cols, lane, largest, t->sums, t->squares) > 0;
}

static void sketch_piece(const struct sketch *s, struct range cols, double largest)
{
    for (int c = 0; c < s->classes; c++) {
        struct lane_totals t = {0};
        if (s->deal == 1)
            add_columns(s, cols, c, s->classes, largest, &t);
        for (int64_t at = c * s->deal; at < s->rows && s->deal > 1; at += s->classes * s->deal) {
            struct sketch deal = deal_of(s, at);
            add_columns(&deal, cols, 0, 1, largest, &t);
        }
        for (int64_t l = 0; l < cols.count; l++)
            keep(s, cols.begin + l, c, t.sums[l], t.squares[l], t.again);
    }
}

void sketch_cpu(const struct sketch *s, int threads)
{
    if (s->exact) {
        const struct exact_lines lines = exact_sketch(s);
        exact_lines_cpu(&lines, threads);
        return;
    }
    double largest = s->odd ? DBL_MAX : FREIVALDS_LARGEST;
    int64_t pieces = s->trans ? (s->cols + SKETCH_PIECE - 1) / SKETCH_PIECE : s->rows;
    if (s->only_found && *s->found != s->tag)
        return;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < pieces; i++)
        if (s->trans)
            sketch_piece(
                s,
                (struct range){i * SKETCH_PIECE, min_i64(SKETCH_PIECE, s->cols - i * SKETCH_PIECE)},
                largest);
        else
            sketch_row(s, i, largest);
}

static void retire_row(const struct retire *r, const void *acc, double *y, int64_t i)
{
    for (int64_t j = 0; j < r->cols; j++) {
        double element = scalar_get(r->type, acc, i * r->ld + j);
        if (r->left_out[j] && r->weights[j] != 0)
            y[i * r->classes + freivalds_class(j, r->deal, r->classes)] -=
                r->weights[j] * (fabs(element) <= DBL_MAX ? element : element - element);
    }
}

void retire_cpu(const struct retire *r, int threads)
{
    if (*r->found != r->tag)
        return;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < r->rows; i++) {
        if (r->acc)
            retire_row(r, r->acc, r->y, i);
        for (int k = 0; k < r->count; k++)
            retire_row(r, r->waiting[k], r->carried, i);
    }
    for (int64_t j = 0; j < r->cols; j++)
        if (r->left_out[j])
            r->weights[j] = 0;
}

void project_cpu(const struct project *p, int threads)
{
    if (p->exact) {
        const struct exact_lines lines = exact_project(p);
        exact_lines_cpu(&lines, threads);
        return;
    }
    int64_t rows = p->trans ? p->cols : p->rows, steps = p->trans ? p->rows : p->cols;
    if (p->squares && p->begin)
        memset(p->squares, 0, (size_t)rows * sizeof *p->squares);
    if (p->from_zero)
        memset(p->y, 0, (size_t)rows * (size_t)p->classes * sizeof *p->y);
    const int64_t each = min_i64(BLOCK, round_up(ceil_div(rows, threads), UNIT));
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < rows; i += each)
        for (int64_t k = 0; k < steps; k += BLOCK)
            cpu_kernels(0)[p->type].project_block(p, (struct range){i, min_i64(each, rows - i)},
                                                  (struct range){k, min_i64(BLOCK, steps - k)});
}

void norms_cpu(const struct norms *n)
{
    for (int c = 0; c < n->classes; c++) {
        double sum = n->begin ? 0 : n->norms[c];
        for (int64_t k = 0; k < n->steps; k++) {
            const double squares = n->squares[k * n->classes + c];
            n->roots[k * n->classes + c] = freivalds_norm(squares, n->width);
            sum += squares;
        }
        n->norms[c] = sum;
    }
}

void judge_cpu(const struct judge *j, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < j->rows; i++) {
        struct row_verdict row = row_before(j, i);
        for (int c = 0; c < j->classes; c++)
            judge_one(j, i, c, &row);
        row_keep(j, i, &row);
    }
    keep_left_out(j);
}

size_t project_partials(int64_t rows, int64_t steps, int classes)
{
    int64_t down = freivalds_parts(rows, PROJECT_ROWS);
    int64_t along = freivalds_parts(steps, PROJECT_STEPS);
    int64_t blocks = min_i64(down * max_i64(along, 1), max_i64(down, PROJECT_BLOCKS));
    return (size_t)(blocks * PROJECT_ROWS) * (size_t)(classes + 1);
}

/* A term of y is rounded in its chain, then in the sums over chains, parts of k and slabs. */
double freivalds_roundings(int64_t length, int classes, int64_t slab, int64_t slabs)
{
    double sketch = ceil((double)length / CLASSES_MAX) + (double)CLASSES_MAX / classes + 8;
    double chains = ceil((double)slab / FREIVALDS_CHAIN);
    return 2 * sketch + FREIVALDS_CHAIN + chains * fmax((double)slabs, 1) + 8;
}
