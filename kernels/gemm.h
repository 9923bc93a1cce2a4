/* The GEMM kernels behind one interface.
 *
 * Column-major BLAS: C := alpha op(A) op(B) + beta C, with C m x n, op(A) m x k, op(B) k x n.
 *
 * The bits.  A kernel whose `same_bits` is true computes every element as ONE running sum
 *     s = fma(op(A)[i,0], op(B)[0,j], s), fma(op(A)[i,1], op(B)[1,j], s), ...   k ascending
 * With alpha = 1 and beta = 1 the sum starts from C's own value, so calls over consecutive slabs
 * of k give the bits of one call over all of k, whatever the slabs, the tiles or the threads.
 * With any other alpha or beta the sum starts from zero and C := fma(alpha, s, beta * C), or
 * alpha * s where beta = 0. beta = 0 never reads C.  k = 0 or alpha = 0 never reads A and B. */
#ifndef DGEMM_OOC_GEMM_H
#define DGEMM_OOC_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "scalar.h"

/* Slab edges are multiples of this, so that no kernel ever splits one of its k steps in two. */
enum { GEMM_QUANTUM = 16 };

/* How large the running sums of a product were on their way: norms[i / PEAK_ROWS * ld + j] bounds
 * the 2-norm of PEAK_ROWS elements of column j of C, from element i on, which is a multiple of
 * PEAK_ROWS; elements that are not finite do not count.  The bound holds before the first step
 * of k, after every PEAK_STEPS steps, and after the last. */
enum { PEAK_ROWS = 64, PEAK_STEPS = 256 };

struct peaks {
    float *norms; /* null: not asked for */
    int64_t ld;
    bool grow; /* keep the larger of each: an earlier call multiplied other steps */
};

struct gemm {
    enum scalar type;
    bool trans_a, trans_b;
    int64_t m, n, k;
    double alpha, beta; /* rounded to `type` before use */
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc; /* elements between columns as stored */
    int shape;             /* of a block, below algorithm_shapes: 0 is the algorithm's own */
    struct peaks peaks;    /* only of an algorithm that reports them */
};

enum algorithm {
    ALGORITHM_NAIVE = 0,
    ALGORITHM_SHARED = 1,
    ALGORITHM_REGISTER = 2,
    ALGORITHM_VECTOR = 3,
    ALGORITHM_ASYNC = 4,
    ALGORITHM_TENSOR = 5,
    ALGORITHM_TMA = 6,
    ALGORITHM_CUBLAS = 7,
    ALGORITHM_CPU = 8,
};

struct algorithm_info {
    enum algorithm id;
    const char *name;
    bool on_gpu;
    bool same_bits; /* promises the running sum above */
};

/* All algorithms of this build, ended by one with a null name. */
extern const struct algorithm_info algorithm_table[];

/* By name or by number ("2" means "register"); null when there is none. */
const struct algorithm_info *algorithm_find(const char *name);
const struct algorithm_info *algorithm_of(enum algorithm id);

/* The fastest well-tried algorithm that keeps the bits, for a GPU of this compute capability (90
 * for 9.0; 0: the CPU) and the type: never by the size of tile or problem. */
enum algorithm algorithm_auto(int capability, enum scalar type);

/* Whether each element is rounded once a step, in one running sum: so do kernels of the same bits,
 * but for CPUs without fused multiply-adds. */
bool algorithm_is_running_sum(enum algorithm id);

/* Whether it can report the peaks of its sums. */
bool algorithm_reports_peaks(enum algorithm id, enum scalar type);

/* How many shapes of a block there are to choose from (gemm_simt_maps.h), all of the same bits. */
int algorithm_shapes(enum algorithm id);

/* Bytes that an algorithm takes for itself, on the device and on the host. */
size_t algorithm_workspace(enum algorithm id);
size_t algorithm_host_overhead(enum algorithm id);

/* The share of a device's best rate that an algorithm reaches, roughly: to plan with. */
double algorithm_share(enum algorithm id);

/* The CPU kernel.  `threads` at most work on one product; `workspace` holds
 * gemm_cpu_workspace(threads) bytes, 64-byte aligned. */
size_t gemm_cpu_workspace(int threads);
void gemm_cpu(const struct gemm *g, int threads, void *workspace);

/* What a core with two vector units can do in a cycle. */
int gemm_cpu_flops_per_cycle(enum scalar type);

#endif
