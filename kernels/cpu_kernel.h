/* The micro-kernels of the CPU: one table of functions per instruction set.
 *
 * All tables are compiled from one source, cpu_kernel.c.  They differ in vector width and tile
 * shape, but not in the bits of gemm: every sum takes the same fma steps in the same order.  (On
 * CPUs without fma each step is a multiplication and an addition, which gives other bits, the same
 * on all such CPUs.)  The sums of the product check differ in their rounding. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "freivalds.h"
#include "lane_sums.h"
#include "vector.h"

enum { SKETCH_PIECE = 128 }; /* columns per call of sketch_cols, at most */

/* Elements [begin, begin + count) of one dimension. */
struct range {
    int64_t begin, count;
};

/* A rows x cols block of C, column-major, with packed operands of k steps. */
struct cpu_block {
    int64_t rows, cols, k, ldc;
    const void *a, *b;
    void *c;
    bool from_c;   /* the sums start from C, otherwise from zero */
    double scale;  /* factor of the final sums */
    int64_t reach; /* column j is wanted down to row `reach` + j, and what else its tile has */
};

/* The source of one packed panel.  `rows` counts rows of op(A), or columns of op(B): at most
 * tile_rows or tile_cols. */
struct cpu_panel {
    const void *from;
    int64_t rows, k;
    int64_t across, along; /* strides in elements: between rows, and between k steps */
};

/* A tile of rows of op(A) by columns of op(B), of bytes, signed or not, as numbers of 16 bits.  Two
 * neighbours along k are a pair, the first in the low half; each pair of tile_rows rows, or of
 * tile_cols columns, is contiguous.  Added to C, column-major and modulo 2^64, are the sums, which
 * are below 2^31, times 2^shift. */
struct cpu_bytes {
    int64_t rows, cols, pairs, ldc; /* rows and cols: the part of the tile that C has */
    const int32_t *a, *b;
    uint64_t *c;
    int shift;
};

/* The functions for one instruction set and element type; for integers those of gemm, combine and
 * lane_sums are null, and for others multiply_bytes is.  A packed panel holds tile_rows rows of
 * op(A), or tile_cols columns of op(B), with each k step contiguous. */
struct cpu_kernel {
    int64_t tile_rows, tile_cols; /* of the micro-kernel (MR, NR) */
    int vector_bytes;
    bool fused; /* each step of gemm is one fma */

    /* Pack a panel.  Rows that it lacks become zeros, which enter discarded sums only. */
    void (*pack_a)(const struct cpu_panel *panel, void *to);
    void (*pack_b)(const struct cpu_panel *panel, void *to);
    /* C := scale * (op(A) op(B) [+ C]) for a block. */
    void (*multiply)(const struct cpu_block *block);

    /* out[i] = fma(alpha, x[i], beta * y[i]).  A null x or y drops its term; out may alias x or
     * y. */
    void (*combine)(int64_t n, double alpha, const void *x, double beta, const void *y, void *out);
    /* Likewise, of n pairs (struct combine in vector.h). */
    void (*combine_pairs)(int64_t n, const double alpha[2], const void *x, const double beta[2],
                          const void *y, void *out);
    /* The inner loops of sketch, with CLASSES_MAX lanes: those of row i, summed pairwise into
     * `lanes`; or one lane down the columns `cols`, at most SKETCH_PIECE.  Each returns the number
     * of excluded elements. */
    int64_t (*sketch_row)(const struct sketch *s, int64_t i, double largest, int lanes,
                          double *sums, double *squares);
    int64_t (*sketch_cols)(const struct sketch *s, struct range cols, int64_t lane, double largest,
                           double *sums, double *squares);
    /* The inner loop of project, for some rows and steps of k. */
    void (*project_block)(const struct project *p, struct range rows, struct range k);
    void (*multiply_bytes)(const struct cpu_bytes *block);
    void (*lane_sums)(struct lane_sums *sums);
};

/* The tables that this CPU can run, indexed by enum scalar.  Rank 0 is the fastest instruction set;
 * null beyond the last. */
const struct cpu_kernel *cpu_kernels(int rank);
