/* The common interface of the GEMM kernels.
 *
 * As in column-major BLAS: C := alpha op(A) op(B) + beta C; C is m x n, op(A) m x k, op(B) k x n.
 *
 * Bitwise contract.  A kernel whose `same_bits` is true computes every element as ONE running sum
 *     s = fma(op(A)[i,0], op(B)[0,j], s), fma(op(A)[i,1], op(B)[1,j], s), ...   k ascending
 * With alpha = beta = 1 the sum starts from C's value, so calls over consecutive slabs of k give
 * the same bits as one call over all of k, independently of slabs, tiles and threads.  With any
 * other alpha or beta the sum starts from zero, and C := fma(alpha, s, beta * C), or alpha * s
 * where beta = 0.  With beta = 0 C is not read; with k = 0 or alpha = 0 A and B are not read.
 *
 * That is the product of one call, and of most problems.  Where C is small and k is long, k is cut
 * into blocks (sums.h).  Each block is such a running sum, and their sums are added
 * along a binary tree: blocks 0 and 1, 2 and 3, and so on; then pairs of these sums; with one that
 * has no partner going up as it is.  So each node of the tree is an aligned range of blocks.
 *
 * A complex product is one of real matrices (problem.h), so that of c = sum of a b
 *     re = fma(re a, re b, re), re = fma(im a, -im b, re), for each a and b, k ascending, and
 *     im = fma(re a, im b, im), im = fma(im a, re b, im). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scalar.h"

/* Slab boundaries are multiples of this, so that they never fall inside a k step of a kernel. */
enum { GEMM_QUANTUM = 16 };

/* Upper bounds on the running sums of a product, at sampled steps of k: for each multiple i of
 * PEAK_ROWS, norms[i / PEAK_ROWS * ld + j] bounds the 2-norm of the PEAK_ROWS elements of column
 * j of C from row i on, without those that are not finite, before the first step of k, after every
 * PEAK_STEPS steps, and after the last. */
enum { PEAK_ROWS = 64, PEAK_STEPS = 256 };

struct peaks {
    float *norms; /* device memory; null: not wanted */
    int64_t ld;
    bool grow; /* take the maximum with what earlier calls, over other steps of k, have stored */
};

struct gemm {
    enum scalar type;
    bool trans_a, trans_b;
    int64_t m, n, k;
    double alpha, beta; /* rounded to `type` before use */
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc; /* leading dimensions: elements between stored columns */
    int shape;             /* of the block tile, below the kernel's `shapes`; 0: the default */
    /* The matrices are those of a complex product (ozaki.h), op(B) not transposed and leading
     * dimensions even: cuBLAS multiplies the complex ones. */
    bool complex;
    /* op(B) is the transpose of op(A)'s last n rows, so that these rows of C are symmetric; where C
     * is read, it is so already.  A kernel may compute half of that square and copy it. */
    bool mirrored;
    struct peaks peaks; /* only where the kernel `reports_peaks` */
    /* A kernel whose blocks stay on the GPU to its end leaves one or two multiprocessors to kernels
     * of other streams, which otherwise wait for that end. */
    bool leaves_room;
};

/* The CPU kernel.  It uses at most `threads` threads and blocks until the product is done.
 * `workspace`: gemm_cpu_workspace(threads) bytes, 64-byte aligned, for this call alone. */
size_t gemm_cpu_workspace(int threads);
void gemm_cpu(const struct gemm *g, int threads, void *workspace);

/* Floating-point operations per cycle of a core with two vector FMA units. */
int gemm_cpu_flops_per_cycle(enum scalar type);
