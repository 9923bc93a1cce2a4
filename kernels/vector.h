/* The operations around GEMM that pass over memory once: the end of a tile (combine) and the
 * products with a vector that the online check needs (project).  Matrices here are ROW-major, as
 * in the files. */
#ifndef DGEMM_OOC_VECTOR_H
#define DGEMM_OOC_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "scalar.h"

/* acc := alpha acc + beta c0 in place, rows x cols: fma(alpha, acc, beta * c0); alpha * acc where
 * beta = 0, and then c0 is not read; beta * c0 where alpha = 0, and then acc is not read. */
struct combine {
    enum scalar type;
    int64_t rows, cols;
    double alpha, beta;
    void *acc;
    const void *c0;
    int64_t ld_acc, ld_c0; /* elements between rows */
};

/* y := op(M) x and y_abs := |op(M)| x_abs, or += when `accumulate`; all vectors double, whatever
 * the type of M.  M is stored rows x cols; op(M) is M, or its transpose when `trans`.  x_abs
 * null means |x|; y_abs null: not wanted.  The sums are deterministic: the same call gives the
 * same bits. */
struct project {
    enum scalar type;
    bool trans, accumulate;
    int64_t rows, cols;
    const void *matrix;
    int64_t ld;
    const double *x, *x_abs;
    double *y, *y_abs;
};

void combine_cpu(const struct combine *c, int threads);
void project_cpu(const struct project *p, int threads);

#endif
