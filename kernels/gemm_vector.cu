/* Algorithm 3, vector: 16-byte loads and double buffering in shared memory.
 *
 * The idea: 16-byte accesses need a quarter of the load instructions (half for doubles), and with 8
 * x 8 elements per thread each loaded number serves 8 multiply-adds.  While a block multiplies one
 * pair of pieces, it prefetches the next pair from global memory to registers; storing these to the
 * other buffer takes one barrier per step. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_vector = {
    GPU_KERNEL(vector),
    .same_bits = true,
    .running_sum = true,
    .shapes = 3,
    .rates[SCALAR_FLOAT] = {{75, 75, 128}, {1, CAPABILITY_ANY, 256}},
    .rates[SCALAR_DOUBLE] = {{1, CAPABILITY_ANY, 4}},
    .of_peak = 0.86,
    .of_best = 0.35,
};
#else
#include "gemm_common.cuh"

/* A thread's share of a prefetched piece, in registers: runs of 16 bytes, contiguous in global
 * memory with those of adjacent threads. */
template <typename T, int THREADS, int SIDE, int STEP, bool K_MAJOR>
struct prefetched {
    static constexpr int RUN = 16 / sizeof(T), COUNT = SIDE * STEP / RUN / THREADS;
    neighbours<T, RUN> runs[COUNT];

    /* The first element of the thread's run `r`, in the piece. */
    __device__ __forceinline__ static piece_place place(int r)
    {
        return simt_piece(K_MAJOR, SIDE, STEP, RUN, r * THREADS + threadIdx.x);
    }

    __device__ __forceinline__ void load(const operand<T, K_MAJOR> &from, int64_t x0, int64_t p0)
    {
        const int width = (int)min(from.width - x0, (int64_t)SIDE);
        const int depth = (int)min(from.depth - p0, (int64_t)STEP);
        const T *corner = from.memory + from.index(x0, p0);
        const bool aligned = from.aligned(RUN);
#pragma unroll
        for (int r = 0; r < COUNT; r++) {
            const auto [x, p] = place(r);
            if (aligned && (K_MAJOR ? x : x + RUN - 1) < width &&
                (K_MAJOR ? p + RUN - 1 : p) < depth) {
                runs[r] = *reinterpret_cast<const neighbours<T, RUN> *>(corner + from.index(x, p));
                continue;
            }
#pragma unroll
            for (int e = 0; e < RUN; e++) {
                bool inside = (K_MAJOR ? x : x + e) < width && (K_MAJOR ? p + e : p) < depth;
                runs[r].at[e] = inside ? corner[from.index(x, p) + e] : from.padding;
            }
        }
    }

    __device__ __forceinline__ void store(staged_wide<T, SIDE, STEP> &piece) const
    {
#pragma unroll
        for (int r = 0; r < COUNT; r++) {
            const auto [x, p] = place(r);
            if (!K_MAJOR)
                *reinterpret_cast<neighbours<T, RUN> *>(&piece.at[p][x]) = runs[r];
#pragma unroll
            for (int e = 0; K_MAJOR && e < RUN; e++)
                piece.at[p + e][x] = runs[r].at[e];
        }
    }
};

template <typename T, bool TRANS_A, bool TRANS_B, class S>
__global__ void __launch_bounds__(S::THREADS) vectors(const product<T> g)
{
    constexpr int RUN = 16 / sizeof(T);
    __shared__ staged_wide<T, S::TILE_M, S::STEP> piece_a[2];
    __shared__ staged_wide<T, S::TILE_N, S::STEP> piece_b[2];
    const origin tile = tile_origin<S::TILE_M, S::TILE_N>(g.m);
    const simt_place at = simt_corner(threadIdx.x, S::THREADS_M, RUN, RUN);
    const auto a = operand_a<TRANS_A>(g);
    const auto b = operand_b<TRANS_B>(g);
    prefetched<T, S::THREADS, S::TILE_M, S::STEP, TRANS_A> next_a;
    prefetched<T, S::THREADS, S::TILE_N, S::STEP, !TRANS_B> next_b;
    thread_tile<T, S::EACH_M, S::THREADS_M, S::EACH_N, S::THREADS_N, RUN> c;

    next_a.load(a, tile.i, 0);
    next_b.load(b, tile.j, 0);
    c.start(g, tile.i + at.x, tile.j + at.y);
    int buffer = 0;
    for (int64_t p0 = 0; p0 < g.k; p0 += S::STEP) {
        /* All threads have finished reading this buffer: the last step's barrier came after
         * that. */
        next_a.store(piece_a[buffer]);
        next_b.store(piece_b[buffer]);
        __syncthreads();
        next_a.load(a, tile.i, p0 + S::STEP);
        next_b.load(b, tile.j, p0 + S::STEP);
#pragma unroll
        for (int p = 0; p < S::STEP; p++)
            c.multiply_row(&piece_a[buffer].at[p][at.x], &piece_b[buffer].at[p][at.y]);
        buffer ^= 1;
    }
    c.finish(g, tile.i + at.x, tile.j + at.y);
}

template <int I>
struct vector_family : block_shape<ALGORITHM_VECTOR, I> {
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return vectors<T, TRANS_A, TRANS_B, block_shape<ALGORITHM_VECTOR, I>>;
    }
};

const kernel_code code_vector = {launch_shape<ALGORITHM_VECTOR, vector_family>, nullptr, nullptr,
                                 false};
#endif
