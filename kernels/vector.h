/* The operations around GEMM that pass over memory once: the end of a tile (combine), the products
 * with a vector that the online check needs (project), norms, and fill.  Matrices here are
 * ROW-major, as in the files. */
#ifndef DGEMM_OOC_VECTOR_H
#define DGEMM_OOC_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "scalar.h"

/* acc := alpha acc + beta c0 in place, rows x cols: fma(alpha, acc, beta * c0); alpha * acc where
 * beta = 0, and then c0 is not read; beta * c0 where alpha = 0, and then acc is not read.
 * With alpha = 1 this is the addition C += beta A. */
struct combine {
    enum scalar type;
    int64_t rows, cols;
    double alpha, beta;
    void *acc;
    const void *c0;
    int64_t ld_acc, ld_c0; /* elements between rows */
};

/* y := op(M) x and y_abs := |op(M)| x_abs, or += when `accumulate`; all vectors double, whatever the
 * type of M.  M is stored rows x cols; op(M) is M, or its transpose when `trans`.  x_abs null means |x|;
 * y_abs null: not wanted.  The sums are deterministic: the same call gives the same bits. */
struct project {
    enum scalar type;
    bool trans, accumulate;
    int64_t rows, cols;
    const void *matrix;
    int64_t ld;
    const double *x, *x_abs;
    double *y, *y_abs;
};

enum { NORM_SHARES = 1024, NORM_PIECE = 4096 };

/* *sum_squares := the sum of M's squared elements, *max_abs := the largest magnitude (NaN if there
 * is a NaN; 0 for no elements).  The sum is in double and deterministic: its order depends on the
 * shape alone.  `shares` is room for 2 NORM_SHARES numbers. */
struct norm {
    enum scalar type;
    int64_t rows, cols;
    const void *matrix;
    int64_t ld;
    double *shares, *sum_squares, *max_abs;
};

/* M := value, rounded to the type. */
struct fill {
    enum scalar type;
    int64_t rows, cols;
    void *matrix;
    int64_t ld;
    double value;
};

void combine_cpu(const struct combine *c, int threads);
void project_cpu(const struct project *p, int threads);
void norm_cpu(const struct norm *p, int threads);
void fill_cpu(const struct fill *p, int threads);

#endif
