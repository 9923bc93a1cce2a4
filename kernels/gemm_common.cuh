/* The common parts of the hand-written GEMM kernels: accumulation, operand addressing, staging in
 * shared memory, the choice of the kernel instance, and the launch.
 *
 * Terms: a block of threads computes a tile of C, step by step along k.  For each step it stages a
 * piece of each operand, the tile's side x the step, in shared memory.  x counts along m or n, p
 * along k.
 *
 * The bitwise contract (gemm.h) is kept here: every element is one chain of explicit fused
 * multiply-adds, so that no compiler flag decides what is fused. */
#pragma once

#include <limits.h>

#include "gemm_simt_maps.h"
#include "launch.cuh"

/* struct gemm with the element type as a parameter. */
template <typename T>
struct product {
    int64_t m, n, k;
    T alpha, beta;
    bool resume; /* alpha = beta = 1: the sums start from C */
    const T *a, *b;
    T *c;
    int64_t lda, ldb, ldc;
    peaks report;
};

__device__ __forceinline__ float multiply_add(float a, float b, float s)
{
    return fmaf(a, b, s);
}

__device__ __forceinline__ double multiply_add(double a, double b, double s)
{
    return fma(a, b, s);
}

template <typename T>
__device__ __forceinline__ T sum_start(const product<T> &g, const T *c)
{
    return g.resume ? *c : T(0);
}

template <typename T>
__device__ __forceinline__ void sum_finish(const product<T> &g, T sum, T *c)
{
    if (g.resume)
        *c = sum;
    else if (g.beta == T(0))
        *c = g.alpha * sum;
    else
        *c = multiply_add(g.alpha, sum, g.beta * *c);
}

/* op(A) or op(B), with elements (x, p).  K_MAJOR: k is the contiguous dimension in memory,
 * otherwise x. */
template <typename T, bool K_MAJOR>
struct operand {
    const T *memory;
    int64_t ld, width, depth;
    T padding; /* the value of elements beyond width and depth */

    /* Whether all runs of `count` elements are aligned for one vector access. */
    __device__ __forceinline__ bool aligned(int count) const
    {
        return (reinterpret_cast<uintptr_t>(memory) | (uintptr_t)ld * sizeof(T)) %
                   (count * sizeof(T)) ==
               0;
    }

    __device__ __forceinline__ int64_t index(int64_t x, int64_t p) const
    {
        return K_MAJOR ? p + x * ld : x + p * ld;
    }

    __device__ __forceinline__ T at(int64_t x, int64_t p) const
    {
        return memory[index(x, p)];
    }
};

/* Padding multiplies to -0 * +0 = -0, the only number whose addition changes no sum: adding +0
 * would turn a sum of -0 into +0, and the bits would depend on where a kernel's k steps end. */
template <bool TRANS_A, typename T>
__host__ __device__ __forceinline__ operand<T, TRANS_A> operand_a(const product<T> &g)
{
    return {g.a, g.lda, g.m, g.k, -T(0)};
}

template <bool TRANS_B, typename T>
__host__ __device__ __forceinline__ operand<T, !TRANS_B> operand_b(const product<T> &g)
{
    return {g.b, g.ldb, g.n, g.k, T(0)};
}

/* Shape I of an algorithm as a template argument. */
template <int ALGORITHM, int I>
struct block_shape {
    static constexpr simt_shape SHAPE = simt_shapes[ALGORITHM][I];
    static constexpr int TILE_M = SHAPE.tile_m, TILE_N = SHAPE.tile_n, STEP = SHAPE.step;
    static constexpr int EACH_M = SHAPE.each_m, EACH_N = SHAPE.each_n;
    static constexpr int THREADS_M = TILE_M / EACH_M, THREADS_N = TILE_N / EACH_N;
    static constexpr int THREADS = THREADS_M * THREADS_N;
};

/* A piece of an operand in shared memory, with padded rows. */
template <typename T, int SIDE, int STEP, int PADDING = SIMT_PADDING>
struct alignas(16) staged {
    T at[STEP][SIDE + PADDING / sizeof(T)];
};

/* A piece with rows aligned for accesses of 16 bytes. */
template <typename T, int SIDE, int STEP>
using staged_wide = staged<T, SIDE, STEP, SIMT_PADDING_WIDE>;

/* All threads of the block copy the piece at (x0, p0) to shared memory. */
template <int THREADS, typename T, int SIDE, int STEP, bool K_MAJOR>
__device__ __forceinline__ void stage(staged<T, SIDE, STEP> &piece, const operand<T, K_MAJOR> &from,
                                      int64_t x0, int64_t p0)
{
#pragma unroll
    for (int first = 0; first < SIDE * STEP; first += THREADS) {
        const int element = first + threadIdx.x;
        if (SIDE * STEP % THREADS != 0 && element >= SIDE * STEP)
            break;
        const auto [x, p] = simt_piece(K_MAJOR, SIDE, STEP, 1, element);
        const bool inside = x0 + x < from.width && p0 + p < from.depth;
        piece.at[p][x] = inside ? from.at(x0 + x, p0 + p) : from.padding;
    }
}

/* Consecutive elements that one instruction moves. */
template <typename T, int RUN>
struct alignas(RUN * sizeof(T)) neighbours {
    T at[RUN];
};

/* The accumulators of one thread: M rows and N columns of C, in runs of RUN that interleave with
 * the runs of ACROSS_M and ACROSS_N threads (simt_offset). */
template <typename T, int M, int ACROSS_M, int N, int ACROSS_N, int RUN>
struct thread_tile {
    T sum[N][M];

    /* After unrolling every index into sum is a constant, so that it stays in registers. */
    __device__ __forceinline__ void start(const product<T> &g, int64_t i0, int64_t j0)
    {
#pragma unroll
        for (int v = 0; v < N; v++)
#pragma unroll
            for (int u = 0; u < M; u++) {
                int64_t i = i0 + simt_offset(u, RUN, ACROSS_M),
                        j = j0 + simt_offset(v, RUN, ACROSS_N);
                sum[v][u] = i < g.m && j < g.n ? sum_start(g, g.c + i + j * g.ldc) : T(0);
            }
    }

    __device__ __forceinline__ void finish(const product<T> &g, int64_t i0, int64_t j0) const
    {
#pragma unroll
        for (int v = 0; v < N; v++)
#pragma unroll
            for (int u = 0; u < M; u++) {
                int64_t i = i0 + simt_offset(u, RUN, ACROSS_M),
                        j = j0 + simt_offset(v, RUN, ACROSS_N);
                if (i < g.m && j < g.n)
                    sum_finish(g, sum[v][u], g.c + i + j * g.ldc);
            }
    }

    /* The thread's elements of a row of each piece, for one step of k. */
    struct factors {
        T a[M], b[N];

        __device__ __forceinline__ void load(const T *row_a, const T *row_b)
        {
#pragma unroll
            for (int u = 0; u < M; u += RUN)
                take(a + u, row_a + simt_offset(u, RUN, ACROSS_M));
#pragma unroll
            for (int v = 0; v < N; v += RUN)
                take(b + v, row_b + simt_offset(v, RUN, ACROSS_N));
        }

        __device__ __forceinline__ static void take(T *to, const T *from)
        {
            const neighbours<T, RUN> taken = *reinterpret_cast<const neighbours<T, RUN> *>(from);
#pragma unroll
            for (int e = 0; e < RUN; e++)
                to[e] = taken.at[e];
        }
    };

    /* Down one column and up the next: consecutive multiply-adds share an operand, which the SM
     * then takes from its reuse cache instead of a register bank. */
    __device__ __forceinline__ void multiply(const factors &f)
    {
#pragma unroll
        for (int v = 0; v < N; v++)
#pragma unroll
            for (int e = 0; e < M; e++) {
                const int u = v % 2 == 0 ? e : M - 1 - e;
                sum[v][u] = multiply_add(f.a[u], f.b[v], sum[v][u]);
            }
    }

    __device__ __forceinline__ void multiply_row(const T *row_a, const T *row_b)
    {
        factors f;
        f.load(row_a, row_b);
        multiply(f);
    }
};

/* The first row and column of a tile. */
struct origin {
    int64_t i, j;
};

template <int TILE_M, int TILE_N>
__device__ __forceinline__ origin tile_origin(int64_t m)
{
    const tile_index tile = simt_tile(blockIdx.x, (unsigned)((m + TILE_M - 1) / TILE_M));
    return {(int64_t)tile.i * TILE_M, (int64_t)tile.j * TILE_N};
}

template <typename T>
product<T> product_of(const struct gemm *gemm)
{
    T alpha = (T)gemm->alpha, beta = (T)gemm->beta;
    product<T> g = {};
    g.m = gemm->m;
    g.n = gemm->n;
    g.k = alpha == T(0) ? 0 : gemm->k;
    g.alpha = alpha;
    g.beta = beta;
    g.resume = alpha == T(1) && beta == T(1);
    g.a = static_cast<const T *>(gemm->a);
    g.b = static_cast<const T *>(gemm->b);
    g.c = static_cast<T *>(gemm->c);
    g.lda = gemm->lda;
    g.ldb = gemm->ldb;
    g.ldc = gemm->ldc;
    g.report = gemm->peaks;
    return g;
}

/* The dynamic shared memory of a family of kernels: its member SHARED, or 0 without one. */
template <class KERNEL>
constexpr auto shared_bytes(int) -> decltype(KERNEL::SHARED)
{
    return KERNEL::SHARED;
}

template <class KERNEL>
constexpr int shared_bytes(long)
{
    return 0;
}

/* The instance of a family of kernels for the transpositions of `gemm`.  KERNEL is the family:
 * function<T, TRANS_A, TRANS_B>() returns a __global__ function. */
template <class KERNEL, typename T>
auto function_for(const struct gemm *gemm)
{
    if (gemm->trans_a)
        return gemm->trans_b ? KERNEL::template function<T, true, true>()
                             : KERNEL::template function<T, true, false>();
    return gemm->trans_b ? KERNEL::template function<T, false, true>()
                         : KERNEL::template function<T, false, false>();
}

/* The number of tiles of C.  A grid can have at most INT_MAX blocks. */
template <class SHAPE>
int64_t tile_count(const struct gemm *gemm)
{
    return (gemm->m + SHAPE::TILE_M - 1) / SHAPE::TILE_M *
           ((gemm->n + SHAPE::TILE_N - 1) / SHAPE::TILE_N);
}

/* Launch one block per tile of C. */
template <class KERNEL, typename T>
cudaError_t launch_typed(const struct gemm *gemm, cudaStream_t stream)
{
    const int64_t tiles = tile_count<KERNEL>(gemm);
    if (tiles == 0)
        return cudaSuccess;
    if (tiles > INT_MAX)
        return cudaErrorInvalidConfiguration;
    return start_kernel(function_for<KERNEL, T>(gemm), (unsigned)tiles, KERNEL::THREADS,
                        shared_bytes<KERNEL>(0), stream, product_of<T>(gemm));
}

template <class KERNEL>
cudaError_t launch(const struct gemm *gemm, cudaStream_t stream)
{
    return for_real(gemm->type,
                    [&](auto x) { return launch_typed<KERNEL, decltype(x)>(gemm, stream); });
}

/* Launch in the shape that `gemm` selects: FAMILY<I> is the family for shape I of ALGORITHM. */
template <int ALGORITHM, template <int> class FAMILY, int I = 0>
cudaError_t launch_shape(const struct gemm *gemm, cudaStream_t stream)
{
    if constexpr (I < simt_shape_count(ALGORITHM))
        return gemm->shape == I ? launch<FAMILY<I>>(gemm, stream)
                                : launch_shape<ALGORITHM, FAMILY, I + 1>(gemm, stream);
    else
        return cudaErrorInvalidValue;
}
