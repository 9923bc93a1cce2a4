/* Algorithm 1, shared: a block computes a tile of C from pieces of A and B in shared memory.
 *
 * The idea: the threads of a block use the same rows of A and columns of B.  Together they load a
 * piece of each, once and coalesced, and then read it from shared memory, which divides global
 * traffic by the side of the tile.  With one element per thread there are still two shared loads
 * per multiply-add. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_shared = {
    GPU_KERNEL(shared), .same_bits = true, .running_sum = true, .shapes = 3, .of_best = 0.08,
};
#else
#include "gemm_common.cuh"

template <typename T, bool TRANS_A, bool TRANS_B, class S>
__global__ void __launch_bounds__(S::THREADS) shared(const product<T> g)
{
    __shared__ staged<T, S::TILE_M, S::STEP> piece_a;
    __shared__ staged<T, S::TILE_N, S::STEP> piece_b;
    const origin tile = tile_origin<S::TILE_M, S::TILE_N>(g.m);
    const simt_place at = simt_corner(threadIdx.x, S::THREADS_M, 1, 1);
    const int64_t i = tile.i + at.x, j = tile.j + at.y;
    const bool inside = i < g.m && j < g.n;

    /* Threads outside of C take part in loading only. */
    T *c = g.c + i + j * g.ldc;
    T sum = inside ? sum_start(g, c) : T(0);
    for (int64_t p0 = 0; p0 < g.k; p0 += S::STEP) {
        stage<S::THREADS>(piece_a, operand_a<TRANS_A>(g), tile.i, p0);
        stage<S::THREADS>(piece_b, operand_b<TRANS_B>(g), tile.j, p0);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < S::STEP; p++)
            sum = multiply_add(piece_a.at[p][at.x], piece_b.at[p][at.y], sum);
        __syncthreads();
    }
    if (inside)
        sum_finish(g, sum, c);
}

template <int I>
struct shared_family : block_shape<ALGORITHM_SHARED, I> {
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return shared<T, TRANS_A, TRANS_B, block_shape<ALGORITHM_SHARED, I>>;
    }
};

const kernel_code code_shared = {launch_shape<ALGORITHM_SHARED, shared_family>, nullptr, nullptr,
                                 false};
#endif
