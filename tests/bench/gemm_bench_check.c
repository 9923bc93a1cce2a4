/* The independent product of gemm_bench: long double sums on the host, for some or all columns. */
#include <math.h>
#include <stdlib.h>

#include "error.h"
#include "gemm_bench.h"
#include "quantity.h"

enum {
    BAND =
        64, /* rows that are summed side by side: a line of A, or 64 of them, stays in the cache */
    COLUMNS_LEAST = 4,
    COLUMNS_MOST = 64,
};

static const double work_full = 0x1p27, work_sampled = 0x1p32; /* multiply-adds */

static int64_t columns_of(const struct gemm *g, bool all)
{
    const double column = (double)g->m * (double)g->k + 1;
    if (all || column * (double)g->n <= work_full)
        return g->n;
    int64_t cols =
        column * COLUMNS_MOST < work_sampled ? COLUMNS_MOST : (int64_t)(work_sampled / column);
    return min_i64(g->n, max_i64(cols, COLUMNS_LEAST));
}

/* Rows [i0, i0 + rows) of a column: sums over k of A b, from C0. */
static void sum_band(const struct bench_operands *o, int64_t j, int64_t i0, int64_t rows,
                     double *product, double *magnitude)
{
    const struct gemm *g = &o->gemm;
    const int64_t across = g->trans_a ? g->lda : 1, along = g->trans_a ? 1 : g->lda;
    long double sums[BAND], sizes[BAND];
    for (int64_t i = 0; i < rows; i++) {
        sums[i] = scalar_get(g->type, o->c0, i0 + i + j * g->ldc);
        sizes[i] = fabsl(sums[i]);
    }
    for (int64_t p = 0; p < g->k; p++) {
        const double b = scalar_get(g->type, o->b, g->trans_b ? j + p * g->ldb : p + j * g->ldb);
        for (int64_t i = 0; i < rows; i++) {
            double a = scalar_get(g->type, o->a, (i0 + i) * across + p * along);
            long double term = (long double)a * b;
            sums[i] += term;
            sizes[i] += fabsl(term);
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        product[i0 + i] = (double)sums[i];
        magnitude[i0 + i] = (double)sizes[i];
    }
}

/* The 2-norm of a row of op(A), or of a column of op(B): k elements so far apart. */
static double norm_of(const struct gemm *g, const void *matrix, int64_t first, int64_t along)
{
    double squares = 0;
    for (int64_t p = 0; p < g->k; p++) {
        const double x = scalar_get(g->type, matrix, first + p * along);
        squares += x * x;
    }
    return sqrt(squares);
}

static void set_norms(const struct bench_operands *o, struct bench_oracle *oracle)
{
    const struct gemm *g = &o->gemm;
#pragma omp parallel for
    for (int64_t i = 0; i < g->m; i++)
        oracle->norms_a[i] =
            norm_of(g, o->a, i * (g->trans_a ? g->lda : 1), g->trans_a ? 1 : g->lda);
    for (int64_t s = 0; s < oracle->cols; s++)
        oracle->norms_b[s] =
            norm_of(g, o->b, oracle->index[s] * (g->trans_b ? 1 : g->ldb), g->trans_b ? g->ldb : 1);
}

int bench_oracle_make(const struct bench_operands *o, bool all, struct bench_oracle *oracle,
                      struct error *err)
{
    const struct gemm *g = &o->gemm;
    const int64_t cols = columns_of(g, all), bands = ceil_div(g->m, BAND);
    const size_t elements = (size_t)(cols * g->m);
    oracle->cols = cols;
    oracle->index = calloc((size_t)cols, sizeof *oracle->index);
    oracle->product = calloc(elements, sizeof *oracle->product);
    oracle->magnitude = calloc(elements, sizeof *oracle->magnitude);
    oracle->norms_a = calloc((size_t)g->m, sizeof *oracle->norms_a);
    oracle->norms_b = calloc((size_t)cols, sizeof *oracle->norms_b);
    if (!oracle->index || !oracle->product || !oracle->magnitude || !oracle->norms_a ||
        !oracle->norms_b) {
        bench_oracle_free(oracle);
        return error_add(err, EXIT_RESOURCES, "no memory to check the product");
    }

    for (int64_t s = 0; s < cols; s++) /* the first and the last, and evenly between */
        oracle->index[s] = cols > 1 ? s * (g->n - 1) / (cols - 1) : 0;
#pragma omp parallel for schedule(dynamic) collapse(2)
    for (int64_t s = 0; s < cols; s++)
        for (int64_t band = 0; band < bands; band++)
            sum_band(o, oracle->index[s], band * BAND, min_i64(BAND, g->m - band * BAND),
                     oracle->product + s * g->m, oracle->magnitude + s * g->m);
    set_norms(o, oracle);
    return 0;
}

void bench_oracle_free(struct bench_oracle *oracle)
{
    free(oracle->index);
    free(oracle->product);
    free(oracle->magnitude);
    free(oracle->norms_a);
    free(oracle->norms_b);
    *oracle = (struct bench_oracle){0};
}

/* In units of the product of 2-norms; 0 of a product that is not in residues. */
static double proven(const struct gemm *g, int moduli)
{
    struct residues residues;
    if (moduli == 0)
        return 0;
    residues_make(moduli, g->complex, &residues);
    return ozaki_proven(&residues, g->type, g->k);
}

/* The rounding errors of a sum of k terms wander: they do not reach sqrt(k) |A||B|, and a lost
 * piece of k goes far beyond.  Products in residues add an error that is proven (ozaki.h). */
void bench_oracle_compare(const struct bench_oracle *oracle, const struct bench_operands *o,
                          int moduli, struct bench_errors *errors)
{
    const struct gemm *g = &o->gemm;
    const double unit = scalar_roundoff(g->type);
    const double sums = 4 * sqrt((double)g->k + 1), residues = proven(g, moduli);
    double squares = 0;
    *errors = (struct bench_errors){.compared = oracle->cols * g->m};
    for (int64_t s = 0; s < oracle->cols; s++)
        for (int64_t i = 0; i < g->m; i++) {
            double got = scalar_get(g->type, o->c, i + oracle->index[s] * g->ldc);
            double error = fabs(got - oracle->product[s * g->m + i]);
            double size = unit * oracle->magnitude[s * g->m + i];
            double bound = unit * oracle->norms_a[i] * oracle->norms_b[s];
            errors->over += !(error <= sums * size + residues * bound);
            if (!isnan(errors->max_units) && !(error <= errors->max_units * size))
                errors->max_units = error / size;
            if (!isnan(errors->max_abs) && !(error <= errors->max_abs))
                errors->max_abs = error;
            squares += error * error;
        }
    errors->mse = errors->compared > 0 ? squares / (double)errors->compared : 0;
}
