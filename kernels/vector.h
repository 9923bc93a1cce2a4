/* The epilogue of a tile of C, one pass over memory.  Matrices here are ROW-major, as in the
 * files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scalar.h"

/* acc := alpha acc + beta c0 in place, rows x cols, as fma(alpha, acc, beta * c0).  With beta = 0
 * the result is alpha * acc and c0 is not read; with alpha = 0 it is beta * c0 and acc is not read.
 * With alpha = 1 this is C += beta A.  alpha and beta are rounded to `type` before use. */
struct combine {
    enum scalar type;
    int64_t rows, cols;
    double alpha, beta;
    void *acc;
    const void *c0;
    int64_t ld_acc, ld_c0; /* leading dimensions: elements between rows */
};

/* Run combine on at most `threads` threads of the CPU.  Blocks until it is done. */
void combine_cpu(const struct combine *c, int threads);
