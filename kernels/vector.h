/* The end of a tile of C, which passes over memory once.  Matrices here are ROW-major, as in the
 * files. */
#ifndef DGEMM_OOC_VECTOR_H
#define DGEMM_OOC_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "scalar.h"

/* acc := alpha acc + beta c0 in place, rows x cols: fma(alpha, acc, beta * c0); alpha * acc
 * where beta = 0, and then c0 is not read; beta * c0 where alpha = 0, and then acc is not read.
 * With alpha = 1 this is C += beta A. */
struct combine {
    enum scalar type;
    int64_t rows, cols;
    double alpha, beta;
    void *acc;
    const void *c0;
    int64_t ld_acc, ld_c0; /* elements between rows */
};

void combine_cpu(const struct combine *c, int threads);

#endif
