/* The inner loops of the CPU kernels, one table of functions for every instruction set.
 *
 * All tables come from one source, cpu_kernel.c, compiled once an instruction set.  They differ
 * in the width of their vectors and so in the shape of their tiles, but not in the bits: every
 * sum of gemm takes the same fma steps in the same order.  (Without fma in the CPU, each step is a
 * multiplication and an addition: such CPUs agree among themselves alone.)  The sums of the product
 * check differ by their rounding. */
#ifndef DGEMM_OOC_CPU_KERNEL_H
#define DGEMM_OOC_CPU_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "freivalds.h"
#include "vector.h"

enum { SKETCH_PIECE = 128 };

/* Elements [begin, begin + count) of one dimension. */
struct range {
    int64_t begin, count;
};

/* A part of C whose operands are packed: column-major, rows x cols, k steps. */
struct cpu_block {
    int64_t rows, cols, k, ldc;
    const void *a, *b;
    void *c;
    bool from_c;  /* the sums start from C, otherwise from zero */
    double scale; /* of the sums when they are done */
};

/* `rows` counts rows of op(A) or columns of op(B): at most those of one panel. */
struct cpu_panel {
    const void *from;
    int64_t rows, k;
    int64_t across, along; /* elements from one row to the next, and from one k step to the next */
};

/* What depends on the instruction set and the element type.  A panel is tile_rows rows of op(A), or
 * tile_cols columns of op(B), packed so that one k step of all of them is contiguous. */
struct cpu_kernel {
    int64_t tile_rows, tile_cols;
    int vector_bytes;
    bool fused; /* each step of gemm is one fma */

    /* Missing rows of a panel become zeros: they meet only sums that are thrown away. */
    void (*pack_a)(const struct cpu_panel *panel, void *to);
    void (*pack_b)(const struct cpu_panel *panel, void *to);
    void (*multiply)(const struct cpu_block *block);

    /* out[i] = fma(alpha, x[i], beta * y[i]).  A null x or y takes its term away; out may be x
     * or y. */
    void (*combine)(int64_t n, double alpha, const void *x, double beta, const void *y, void *out);
    /* The inner loops of sketch, in CLASSES_MAX lanes: all lanes of a row, or one of them down the
     * columns `cols`, SKETCH_PIECE at most; how many elements did not count.  And of project, for
     * some rows and k. */
    int64_t (*sketch_row)(const struct sketch *s, int64_t i, double largest, double *sums,
                          double *squares);
    int64_t (*sketch_cols)(const struct sketch *s, struct range cols, int64_t lane, double largest,
                           double *sums, double *squares);
    void (*project_block)(const struct project *p, struct range rows, struct range k);
};

/* The tables, indexed by enum scalar, that this CPU can run: the best has rank 0; null after the
 * last. */
const struct cpu_kernel *cpu_kernels(int rank);

#endif
