/* combine and project on the CPU.  Threads share out elements of the result and never split a
 * sum, so the bits do not depend on their number. */
#include "vector.h"

#include <math.h>

#include "cpu_kernel.h"

enum {
    PIECE =
        512,   /* columns that a thread sums at a time: their sums stay in its first-level cache */
    LINE = 16, /* columns that share a cache line */
};

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_zero(enum scalar type, double x)
{
    return type == SCALAR_FLOAT ? (float)x == 0 : x == 0;
}

void combine_cpu(const struct combine *c, int threads)
{
    const struct cpu_kernel *kernel = &cpu_kernels(0)[c->type];
    int64_t acc_bytes = c->ld_acc * (int64_t)scalar_size(c->type);
    int64_t c0_bytes = c->ld_c0 * (int64_t)scalar_size(c->type);
    bool with_acc = !is_zero(c->type, c->alpha), with_c0 = !is_zero(c->type, c->beta);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < c->rows; i++) {
        char *acc = (char *)c->acc + i * acc_bytes;
        const char *c0 = with_c0 ? (const char *)c->c0 + i * c0_bytes : NULL;
        kernel->combine(c->cols, c->alpha, with_acc ? acc : NULL, c->beta, c0, acc);
    }
}

static void store(const struct project *p, int64_t i, double plain, double magnitude)
{
    p->y[i] = p->accumulate ? p->y[i] + plain : plain;
    if (p->y_abs)
        p->y_abs[i] = p->accumulate ? p->y_abs[i] + magnitude : magnitude;
}

/* y = M x: a dot product for every row. */
static void project_rows(const struct project *p, const struct cpu_kernel *kernel, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < p->rows; i++) {
        double sum[2];
        kernel->project_row(p, i, sum);
        store(p, i, sum[0], sum[1]);
    }
}

/* y = M' x for a range of columns: the rows, scaled, added up. */
static void project_piece(const struct project *p, const struct cpu_kernel *kernel,
                          struct range cols)
{
    double plain[PIECE] = {0}, magnitude[PIECE] = {0};
    kernel->project_cols(p, cols, plain, magnitude);
    for (int64_t j = 0; j < cols.count; j++)
        store(p, cols.begin + j, plain[j], magnitude[j]);
}

static void project_cols(const struct project *p, const struct cpu_kernel *kernel, int threads)
{
    int64_t share = (p->cols / threads + LINE - 1) / LINE * LINE;
    int64_t piece = share < LINE ? LINE : min_of(share, PIECE);
    int64_t pieces = (p->cols + piece - 1) / piece;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
    for (int64_t i = 0; i < pieces; i++) {
        struct range cols = {i * piece, min_of(piece, p->cols - i * piece)};
        project_piece(p, kernel, cols);
    }
}

void project_cpu(const struct project *p, int threads)
{
    const struct cpu_kernel *kernel = &cpu_kernels(0)[p->type];
    if (p->trans)
        project_cols(p, kernel, threads);
    else
        project_rows(p, kernel, threads);
}
