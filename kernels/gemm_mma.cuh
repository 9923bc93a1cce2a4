/* The common parts of the tensor-core kernels: fragments, the instruction, and warp tiles.
 *
 * One mma instruction of a warp multiplies a 16 x 8 by an 8 x 8 matrix, and accumulates the eight
 * products of an element in ascending order of k, each as one fma: the running sum of gemm.h.  So
 * these kernels give the same bits as the plain ones (tests/kernels compares them). */
#pragma once

#include "gemm_common.cuh"
#include "gemm_mma_maps.h"
#include "ptx.cuh"

/* A thread block computes a tile of C with WARPS_M x WARPS_N warps; a warp tile has
 * BLOCKS_M x BLOCKS_N blocks of 16 x 16.  The ring in shared memory has STAGES pairs of pieces. */
template <int WARPS_M_, int WARPS_N_, int BLOCKS_M_, int BLOCKS_N_, int STAGES_>
struct mma_shape {
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, WARPS = WARPS_M * WARPS_N;
    static constexpr int BLOCKS_M = BLOCKS_M_, BLOCKS_N = BLOCKS_N_, STAGES = STAGES_;
    static constexpr int TILE_M = WARPS_M * BLOCKS_M * 16, TILE_N = WARPS_N * BLOCKS_N * 16;
    static constexpr int BYTES_A = TILE_M / 16 * MMA_BLOCK, BYTES_B = TILE_N / 16 * MMA_BLOCK;
    static constexpr int STAGE = BYTES_A + BYTES_B, BYTES = STAGES * STAGE;
};

/* A lane's fragment of a block of an operand, for eight steps of k. */
typedef double fragment_a[2][2]; /* [i][h] of gemm_mma_maps.h, in the instruction's order */
typedef double fragment_b[2][2]; /* [h][i] */

/* sum += the block of A times half h of the block of B. */
__device__ __forceinline__ void mma(double (&sum)[4], const fragment_a &a, const fragment_b &b,
                                    int h)
{
    mma_m16n8k8(sum, a[0], b[h]);
}

/* Load steps 8 s ... 8 s + 7 of the block that begins `block` bytes after the first one, where this
 * lane's elements are at `at`. */
template <bool K_MAJOR>
__device__ __forceinline__ void load_fragment_a(fragment_a &f, unsigned at, int block, int s)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int skip = block + mma_skip(K_MAJOR, s, i);
        if (K_MAJOR) {
            load_shared(f[i][0], (at ^ mma_flip(K_MAJOR, 0, s, i)) + skip);
            load_shared(f[i][1], (at ^ mma_flip(K_MAJOR, 1, s, i)) + skip);
        } else {
            load_shared(f[i][0], f[i][1], (at ^ mma_flip(K_MAJOR, 0, s, i)) + skip);
        }
    }
}

template <bool K_MAJOR>
__device__ __forceinline__ void load_fragment_b(fragment_b &f, unsigned at, int block, int s)
{
#pragma unroll
    for (int hi = 0; hi < 4; hi++) {
        const int h = hi / 2, i = hi % 2;
        load_shared(f[h][i], (at ^ mma_flip(K_MAJOR, h, s, i)) + block + mma_skip(K_MAJOR, s, i));
    }
}

/* A warp tile: the accumulators and fragments of one warp. */
template <class SHAPE, bool K_MAJOR_A, bool K_MAJOR_B>
struct warp_tile {
    static constexpr int M = SHAPE::BLOCKS_M, N = SHAPE::BLOCKS_N;

    int lane, row, column;
    unsigned at_a, at_b; /* offsets of this lane's first elements of A and B in a stage */
    double sum[M][N][2][4];
    fragment_a a[2][M];
    fragment_b b[N];

    __device__ __forceinline__ warp_tile()
    {
        const mma_part part = mma_warp(threadIdx.x / 32, SHAPE::WARPS_M);
        lane = threadIdx.x % 32;
        row = part.i * M * 16;
        column = part.j * N * 16;
        at_a = row / 16 * MMA_BLOCK + mma_place(K_MAJOR_A, mma_row(lane, 0), lane % 4);
        at_b = SHAPE::BYTES_A + column / 16 * MMA_BLOCK +
               mma_place(K_MAJOR_B, mma_column(lane, 0), lane % 4);
        opaque(at_a);
        opaque(at_b);
    }

    /* s, here and below: half s = 0, 1 of a piece's 16 steps. */
    __device__ __forceinline__ void load_a(int s, unsigned stage)
    {
#pragma unroll
        for (int u = 0; u < M; u++)
            load_fragment_a<K_MAJOR_A>(a[s][u], stage + at_a, u * MMA_BLOCK, s);
    }

    __device__ __forceinline__ void load_b(int v, int s, unsigned stage)
    {
        load_fragment_b<K_MAJOR_B>(b[v], stage + at_b, v * MMA_BLOCK, s);
    }

    __device__ __forceinline__ void multiply(int v, int s)
    {
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int u = 0; u < M; u++)
                mma(sum[u][v][h], a[s][u], b[v], h);
    }

    /* Multiply the fragments of half s, and load those of the next half from the stage `next`:
     * first A's, then each of B's one iteration after its last use, when the tensor core has read
     * it. */
    __device__ __forceinline__ void advance(int s, unsigned next)
    {
        load_a(1 - s, next);
#pragma unroll
        for (int v = 0; v < N; v++) {
            multiply(v, s);
            if (v > 0)
                load_b(v - 1, 1 - s, next);
        }
        load_b(N - 1, 1 - s, next);
    }

    /* The last piece, of which `left` steps of k belong to the product.  The others were filled
     * with +0; in A these become -0, since only the addition of -0 * +0 changes no sum. */
    __device__ __forceinline__ void end(unsigned stage, int left)
    {
#pragma unroll
        for (int s = 0; s < 2; s++) {
            if (s > 0) {
                load_a(s, stage);
#pragma unroll
                for (int v = 0; v < N; v++)
                    load_b(v, s, stage);
            }
#pragma unroll
            for (int ui = 0; ui < 2 * M; ui++)
                if (mma_p(lane, s, ui % 2) >= left)
                    a[s][ui / 2][ui % 2][0] = a[s][ui / 2][ui % 2][1] = -0.0;
#pragma unroll
            for (int v = 0; v < N; v++)
                multiply(v, s);
        }
    }

    /* The main loop, over all of k.  PIPE is the pipeline of stages: acquire() waits for the next
     * piece and returns its address, release() frees the oldest one for reuse, and fill() may issue
     * copies, which multiplications hide.  A piece is released only after a multiplication has used
     * the last fragment loaded from it: a load in flight could still be overtaken by the refill. */
    template <class PIPE>
    __device__ __forceinline__ void add(PIPE &pipe, int64_t k)
    {
        if (k <= 0)
            return;
        unsigned stage = pipe.acquire();
        load_a(0, stage);
#pragma unroll
        for (int v = 0; v < N; v++)
            load_b(v, 0, stage);
        for (; k > MMA_STEP; k -= MMA_STEP) {
            advance(0, stage);
            pipe.fill();
            stage = pipe.acquire();
            advance(1, stage);
            pipe.release();
        }
        end(stage, (int)k);
        pipe.fill();
        pipe.release();
    }

    /* Call WHAT(sum, c) for each accumulator of this lane inside of C, with the address of its
     * element. */
    template <class WHAT>
    __device__ __forceinline__ void each(const product<double> &g, origin tile, WHAT what)
    {
#pragma unroll
        for (int v = 0; v < N; v++)
#pragma unroll
            for (int he = 0; he < 4; he++) {
                const int h = he / 2, e = he % 2;
                const int64_t j = tile.j + column + v * 16 + mma_sum_column(lane, h, e);
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

    /* C := alpha A B + beta C in the first `columns` columns of the tile.  A warp whose warp tile
     * is outside of these only advances the pipeline. */
    template <class PIPE>
    __device__ __forceinline__ void compute(const product<double> &g, origin tile, int columns,
                                            PIPE &pipe)
    {
        if (tile.i + row < g.m && tile.j + column < g.n && column < columns) {
            start(g, tile);
            add(pipe, g.k);
            finish(g, tile);
        } else {
            for (int64_t k = g.k; k > 0; k -= MMA_STEP) {
                pipe.acquire();
                pipe.fill();
                pipe.release();
            }
        }
    }
};

/* The tiles of C; at most INT_MAX in all, so that all counts fit. */
template <class SHAPE>
__host__ __device__ __forceinline__ mma_tiles tiles_of(const product<double> &g)
{
    return mma_tiles_of(g.m, g.n, SHAPE::TILE_M, SHAPE::TILE_N);
}

template <class SHAPE>
__device__ __forceinline__ origin origin_of(tile_index tile)
{
    return {(int64_t)tile.i * SHAPE::TILE_M, (int64_t)tile.j * SHAPE::TILE_N};
}

/* Whether every pair of elements in a column is aligned to 16 bytes. */
static inline bool pairs_aligned(const void *memory, int64_t ld)
{
    return (uintptr_t)memory % 16 == 0 && ld % 2 == 0;
}
