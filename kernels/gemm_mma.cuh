/* What the tensor-core kernels share: the instruction, and a warp's part of a tile of C.
 *
 * The tensor core multiplies a 16 x 8 by an 8 x 8 matrix in one instruction of the whole warp, and
 * adds each element's eight products in ascending order of k, each as one fma: the running sum of
 * gemm.h.  So these kernels have the bits of the plain ones (tests/kernels compares them). */
#ifndef DGEMM_OOC_GEMM_MMA_CUH
#define DGEMM_OOC_GEMM_MMA_CUH

#include "gemm_common.cuh"
#include "gemm_mma_maps.h"

/* A block of threads computes a tile of C with WARPS_M x WARPS_N warps, each of BLOCKS_M x BLOCKS_N
 * blocks of 16 x 16.  STAGES pieces of A and B are in shared memory at once. */
template <int WARPS_M_, int WARPS_N_, int BLOCKS_M_, int BLOCKS_N_, int STAGES_, int DEPTH_>
struct mma_shape {
    static constexpr int DEPTH = DEPTH_;
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, WARPS = WARPS_M * WARPS_N;
    static constexpr int BLOCKS_M = BLOCKS_M_, BLOCKS_N = BLOCKS_N_, STAGES = STAGES_;
    static constexpr int TILE_M = WARPS_M * BLOCKS_M * 16, TILE_N = WARPS_N * BLOCKS_N * 16;
    static constexpr int BYTES_A = TILE_M / 16 * MMA_BLOCK, BYTES_B = TILE_N / 16 * MMA_BLOCK;
    static constexpr int STAGE = BYTES_A + BYTES_B, BYTES = STAGES * STAGE;
};

template <int DEPTH>
struct mma_fragment {
    double at[DEPTH / 4][2];
};

__device__ __forceinline__ void mma(double (&sum)[4], const mma_fragment<4> &a,
                                    const mma_fragment<4> &b, int h)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a.at[0][0]), "d"(a.at[0][1]), "d"(b.at[0][h]));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
    for (int e = 0; e < 2; e++)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(sum[e * 2]), "+d"(sum[e * 2 + 1])
            : "d"(a.at[0][e]), "d"(b.at[0][h]));
#endif
}

__device__ __forceinline__ void mma(double (&sum)[4], const mma_fragment<8> &a,
                                    const mma_fragment<8> &b, int h)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a.at[0][0]), "d"(a.at[0][1]), "d"(a.at[1][0]), "d"(a.at[1][1]), "d"(b.at[0][h]), "d"(b.at[1][h]));
#endif
}

__device__ __forceinline__ void load_shared(double &x, unsigned at)
{
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(at) : "memory");
}

__device__ __forceinline__ void load_shared(double &x, double &y, unsigned at)
{
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(at) : "memory");
}

/* Group q of the block that begins `skip` after `at`, this lane's place in the first block. */
template <bool DEEP, int DEPTH>
__device__ __forceinline__ void load_fragment(mma_fragment<DEPTH> &f, unsigned at, int skip, int q)
{
#pragma unroll
    for (int part = 0; part < DEPTH / 4; part++) {
        const int s = (q * DEPTH / 4 + part) / 2, i = (q * DEPTH / 4 + part) % 2;
        const int upper = skip + mma_skip(DEEP, 0, s, i), lower = skip + mma_skip(DEEP, 1, s, i);
        if (DEEP) {
            load_shared(f.at[part][0], (at ^ mma_flip(DEEP, 0, s, i)) + upper);
            load_shared(f.at[part][1], (at ^ mma_flip(DEEP, 1, s, i)) + lower);
        } else {
            load_shared(f.at[part][0], f.at[part][1], (at ^ mma_flip(DEEP, 0, s, i)) + upper);
        }
    }
}

/* A warp's part of a tile.  i0, j0: where it begins in C, for this lane's first elements. */
template <class SHAPE, bool DEEP_A, bool DEEP_B>
struct warp_part {
    static constexpr int M = SHAPE::BLOCKS_M, N = SHAPE::BLOCKS_N, DEPTH = SHAPE::DEPTH;
    static constexpr int GROUPS = MMA_STEP / DEPTH;

    int lane, row, column;
    unsigned at_a, at_b; /* where in a stage this lane's elements of A and B begin */
    double sum[M][N][2][4];
    mma_fragment<DEPTH> a[2][M], b[2][N]; /* two of each: one is loaded while one is multiplied */

    __device__ __forceinline__ warp_part()
    {
        const int warp = threadIdx.x / 32;
        lane = threadIdx.x % 32;
        row = warp % SHAPE::WARPS_M * M * 16;
        column = warp / SHAPE::WARPS_M * N * 16;
        at_a = row / 16 * MMA_BLOCK + mma_base(DEEP_A, lane);
        at_b = SHAPE::BYTES_A + column / 16 * MMA_BLOCK + mma_base(DEEP_B, lane);
        /* Opaque to the compiler, which would otherwise keep the terms of these sums in registers. */
        asm("" : "+r"(at_a), "+r"(at_b));
    }

    /* Group q of the pieces at `stage`. */
    __device__ __forceinline__ void load(int q, unsigned stage)
    {
#pragma unroll
        for (int u = 0; u < M; u++)
            load_fragment<DEEP_A>(a[q % 2][u], stage + at_a, u * MMA_BLOCK, q);
#pragma unroll
        for (int v = 0; v < N; v++)
            load_fragment<DEEP_B>(b[q % 2][v], stage + at_b, v * MMA_BLOCK, q);
    }

    /* Of group q only the first `left` in k of its pieces belong to the product, the rest is +0.  In A
     * it becomes -0, since only -0 * +0 changes no sum. */
    __device__ __forceinline__ void cut(int q, int left)
    {
#pragma unroll
        for (int part = 0; part < DEPTH / 4; part++)
            if (DEPTH * q + 4 * part + lane % 4 >= left)
#pragma unroll
                for (int u = 0; u < M; u++)
                    a[q % 2][u].at[part][0] = a[q % 2][u].at[part][1] = -0.0;
    }

    __device__ __forceinline__ void multiply(int q)
    {
#pragma unroll
        for (int v = 0; v < N; v++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int u = 0; u < M; u++)
                    mma(sum[u][v][h], a[q % 2][u], b[q % 2][v], h);
    }

    /* Add all of k.  PIPE brings the pieces: acquire() waits for the next and says where it is, after
     * release() that one may be overwritten; fill() is a moment to bring more, hidden behind
     * multiplications.  A warp whose part lies outside C only keeps step. */
    template <class PIPE>
    __device__ __forceinline__ void add(PIPE &pipe, int64_t k, bool inside)
    {
        for (; k > 0 && !inside; k -= MMA_STEP) {
            pipe.acquire();
            pipe.fill();
            pipe.release();
        }
        if (k <= 0)
            return;
        unsigned stage = pipe.acquire();
        load(0, stage);
        for (; k >= MMA_STEP; k -= MMA_STEP)
#pragma unroll
            for (int q = 0; q < GROUPS; q++) {
                if (q < GROUPS - 1) {
                    load(q + 1, stage);
                } else {
                    pipe.release();
                    if (k > MMA_STEP) {
                        stage = pipe.acquire();
                        load(0, stage);
                    }
                }
                multiply(q);
                if (q == 0)
                    pipe.fill();
            }
        if (k == 0)
            return;
#pragma unroll
        for (int q = 0; q < GROUPS; q++) {
            if (q > 0)
                load(q, stage);
            cut(q, (int)k);
            multiply(q);
        }
        pipe.fill();
        pipe.release();
    }

    /* WHAT(sum, c) for each sum of this lane that lies in C, with its place there. */
    template <class WHAT>
    __device__ __forceinline__ void each(const product<double> &g, origin tile, WHAT what)
    {
#pragma unroll
        for (int v = 0; v < N; v++)
#pragma unroll
            for (int he = 0; he < 4; he++) {
                const int h = he / 2, e = he % 2;
                const int64_t j = tile.j + column + v * 16 + mma_column(lane, h, e);
                const int64_t i = tile.i + row + mma_row(lane, 0);
                double *const c = g.c + i + j * g.ldc;
                if (j < g.n)
#pragma unroll
                    for (int u = 0; u < M * 2; u++) {
                        const int below = u / 2 * 16 + u % 2;
                        if (i + below < g.m)
                            what(sum[u / 2][v][h][e + u % 2 * 2], c + below);
                    }
            }
    }

    __device__ __forceinline__ void start(const product<double> &g, origin tile)
    {
#pragma unroll
        for (int w = 0; w < M * N * 8; w++)
            sum[w / (N * 8)][w / 8 % N][w / 4 % 2][w % 4] = 0;
        if (g.resume)
            each(g, tile, [](double &s, const double *c) { s = *c; });
    }

    __device__ __forceinline__ void finish(const product<double> &g, origin tile)
    {
        each(g, tile, [=](double &s, double *c) { sum_finish(g, s, c); });
    }

    __device__ __forceinline__ bool inside(const product<double> &g, origin tile) const
    {
        return tile.i + row < g.m && tile.j + column < g.n;
    }
};

/* Tile number `tile`, counted in the order of gemm_mma_maps.h. */
template <class SHAPE>
__device__ __forceinline__ origin mma_origin(const product<double> &g, unsigned tile)
{
    const unsigned tiles_m = (unsigned)((g.m + SHAPE::TILE_M - 1) / SHAPE::TILE_M);
    const unsigned tiles_n = (unsigned)((g.n + SHAPE::TILE_N - 1) / SHAPE::TILE_N);
    const mma_tile at = mma_order(tile, tiles_m, tiles_n);
    return {(int64_t)at.i * SHAPE::TILE_M, (int64_t)at.j * SHAPE::TILE_N};
}

/* Whether every second element of each column is at a multiple of 16 bytes. */
static inline bool pairs_aligned(const void *memory, int64_t ld)
{
    return (uintptr_t)memory % 16 == 0 && ld % 2 == 0;
}

#endif
