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
template <int WARPS_M_, int WARPS_N_, int BLOCKS_M_, int BLOCKS_N_, int STAGES_>
struct mma_shape {
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, WARPS = WARPS_M * WARPS_N;
    static constexpr int BLOCKS_M = BLOCKS_M_, BLOCKS_N = BLOCKS_N_, STAGES = STAGES_;
    static constexpr int TILE_M = WARPS_M * BLOCKS_M * 16, TILE_N = WARPS_N * BLOCKS_N * 16;
    static constexpr int BYTES_A = TILE_M / 16 * MMA_BLOCK, BYTES_B = TILE_N / 16 * MMA_BLOCK;
    static constexpr int STAGE = BYTES_A + BYTES_B, BYTES = STAGES * STAGE;
};

/* A block of an operand as a lane holds it for one instruction: [i][h] of gemm_mma_maps.h. */
typedef double mma_fragment[2][2];

/* sum += A's block times half h of B's block.  The GPUs before sm_90 have only the 8 x 8 x 4 form of
 * the instruction, and take four of them, again in ascending order of k. */
__device__ __forceinline__ void mma(double (&sum)[4], const mma_fragment &a, const mma_fragment &b,
                                    int h)
{
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0][0]), "d"(a[0][1]), "d"(a[1][0]), "d"(a[1][1]), "d"(b[0][h]), "d"(b[1][h]));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
    for (int e = 0; e < 4; e++)
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(sum[e % 2 * 2]), "+d"(sum[e % 2 * 2 + 1])
            : "d"(a[e / 2][e % 2]), "d"(b[e / 2][h]));
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

/* Eighth s of a block; `at` is the block's address, at this lane's mma_base. */
template <bool DEEP>
__device__ __forceinline__ void load_fragment(mma_fragment &f, unsigned at, int s)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (DEEP) {
            load_shared(f[i][0], (at ^ mma_flip(DEEP, 0, s, i)) + mma_skip(DEEP, 0, s, i));
            load_shared(f[i][1], (at ^ mma_flip(DEEP, 1, s, i)) + mma_skip(DEEP, 1, s, i));
        } else {
            load_shared(f[i][0], f[i][1], (at ^ mma_flip(DEEP, 0, s, i)) + mma_skip(DEEP, 0, s, i));
        }
    }
}

/* A warp's part of a tile.  i0, j0: where it begins in C, for this lane's first elements. */
template <class SHAPE, bool DEEP_A, bool DEEP_B>
struct warp_part {
    static constexpr int M = SHAPE::BLOCKS_M, N = SHAPE::BLOCKS_N;

    int lane, row, column;
    unsigned at_a, at_b; /* where in a stage this lane's elements of A and B begin */
    double sum[M][N][2][4];
    mma_fragment a[2][M], b[2]; /* two of each: one is loaded while one is multiplied */

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

    /* A's blocks in eighth s of the pieces at `stage`, of which the first `left` in k belong to the
     * product.  Pieces are filled up with +0, which in A becomes -0: only -0 * +0 changes no sum. */
    __device__ __forceinline__ void load_a(int s, unsigned stage, int left)
    {
#pragma unroll
        for (int u = 0; u < M; u++)
            load_fragment<DEEP_A>(a[s][u], stage + at_a + u * MMA_BLOCK, s);
        if (left < 8 * s + 8)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (mma_p(lane, s, i) >= left)
#pragma unroll
                    for (int u = 0; u < M; u++)
                        a[s][u][i][0] = a[s][u][i][1] = -0.0;
    }

    /* Block v of B. */
    __device__ __forceinline__ void load_b(int s, int v, unsigned stage)
    {
        load_fragment<DEEP_B>(b[v % 2], stage + at_b + v * MMA_BLOCK, s);
    }

    __device__ __forceinline__ void multiply(int s, int v)
    {
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int u = 0; u < M; u++)
                mma(sum[u][v][h], a[s][u], b[v % 2], h);
    }

    /* Add all of k.  PIPE brings the pieces: acquire() waits for the next and says where it is, after
     * release() that one may be overwritten; fill() is a moment to bring more, hidden behind
     * multiplications.  A warp whose part lies outside C only keeps step. */
    template <class PIPE>
    __device__ __forceinline__ void add(PIPE &pipe, int64_t k, bool inside)
    {
        static_assert(N % 2 == 0, "the two fragments of B take turns");
        for (; k > 0 && !inside; k -= MMA_STEP) {
            pipe.acquire();
            pipe.fill();
            pipe.release();
        }
        if (k <= 0)
            return;
        int left = (int)min(k, (int64_t)MMA_STEP);
        unsigned stage = pipe.acquire();
        load_a(0, stage, left);
        load_b(0, 0, stage);
        for (; k > 0; k -= MMA_STEP)
#pragma unroll
            for (int sv = 0; sv < 2 * N; sv++) {
                const int s = sv / N, v = sv % N;
                if (sv == N - 1)
                    load_a(1, stage, left);
                if (sv < 2 * N - 1) {
                    load_b((sv + 1) / N, (sv + 1) % N, stage);
                } else {
                    pipe.release();
                    if (k > MMA_STEP) {
                        left = (int)min(k - MMA_STEP, (int64_t)MMA_STEP);
                        stage = pipe.acquire();
                        load_a(0, stage, left);
                        load_b(0, 0, stage);
                    }
                }
                multiply(s, v);
                if (sv == 0)
                    pipe.fill();
            }
    }

    /* Visit the sums in pairs, each pair with its place in C; WHAT(pair, c, rows): rows of the pair's
     * two lie in C. */
    template <class WHAT>
    __device__ __forceinline__ void each(const product<double> &g, origin tile, WHAT what)
    {
        const int64_t i0 = tile.i + row + mma_row(lane, 0);
#pragma unroll
        for (int v = 0; v < N; v++)
#pragma unroll
            for (int he = 0; he < 4; he++) {
                const int h = he / 2, e = he % 2;
                const int64_t j = tile.j + column + v * 16 + mma_column(lane, h, e);
                if (j < g.n)
#pragma unroll
                    for (int u = 0; u < M; u++) {
                        const int64_t i = i0 + u * 16, rows = g.m - i;
                        double(&s)[4] = sum[u][v][h];
                        if (rows > 0)
                            what(s[e], s[e + 2], g.c + i + j * g.ldc, rows > 1);
                    }
            }
    }

    __device__ __forceinline__ void start(const product<double> &g, origin tile)
    {
#pragma unroll
        for (int w = 0; w < M * N * 8; w++)
            sum[w / (N * 8)][w / 8 % N][w / 4 % 2][w % 4] = 0;
        if (!g.resume)
            return;
        const bool aligned = (uintptr_t)g.c % 16 == 0 && g.ldc % 2 == 0;
        each(g, tile, [=](double &upper, double &lower, const double *c, bool both) {
            if (both && aligned) {
                const double2 pair = *reinterpret_cast<const double2 *>(c);
                upper = pair.x;
                lower = pair.y;
            } else {
                upper = c[0];
                lower = both ? c[1] : 0;
            }
        });
    }

    __device__ __forceinline__ void finish(const product<double> &g, origin tile)
    {
        const bool aligned = (uintptr_t)g.c % 16 == 0 && g.ldc % 2 == 0;
        const bool reads = !g.resume && g.beta != 0;
        each(g, tile, [=](double &upper, double &lower, double *c, bool both) {
            if (both && aligned) {
                double2 pair = reads ? *reinterpret_cast<double2 *>(c) : double2{0, 0};
                sum_finish(g, upper, &pair.x);
                sum_finish(g, lower, &pair.y);
                *reinterpret_cast<double2 *>(c) = pair;
            } else {
                sum_finish(g, upper, c);
                if (both)
                    sum_finish(g, lower, c + 1);
            }
        });
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
