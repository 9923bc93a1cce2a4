/* Algorithm 2, register: each thread computes several rows and columns of C in registers.
 *
 * The idea: a thread with 4 rows and 4 columns does 16 multiply-adds per 8 shared loads, where one
 * element per thread needs two loads for each.  A thread's rows (and columns) are not adjacent but
 * strided by the number of threads across, so that the threads of a warp access consecutive rows:
 * no bank conflicts in shared memory, and coalesced accesses to C. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_register = {
    GPU_KERNEL(register), .same_bits = true, .running_sum = true, .shapes = 4, .of_best = 0.26,
};
#else
#include "gemm_common.cuh"

template <typename T, bool TRANS_A, bool TRANS_B, class S>
__global__ void __launch_bounds__(S::THREADS) registers(const product<T> g)
{
    __shared__ staged<T, S::TILE_M, S::STEP> piece_a;
    __shared__ staged<T, S::TILE_N, S::STEP> piece_b;
    const origin tile = tile_origin<S::TILE_M, S::TILE_N>(g.m);
    const simt_place at = simt_corner(threadIdx.x, S::THREADS_M, 1, 1);
    thread_tile<T, S::EACH_M, S::THREADS_M, S::EACH_N, S::THREADS_N, 1> c;

    c.start(g, tile.i + at.x, tile.j + at.y);
    for (int64_t p0 = 0; p0 < g.k; p0 += S::STEP) {
        stage<S::THREADS>(piece_a, operand_a<TRANS_A>(g), tile.i, p0);
        stage<S::THREADS>(piece_b, operand_b<TRANS_B>(g), tile.j, p0);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < S::STEP; p++)
            c.multiply_row(&piece_a.at[p][at.x], &piece_b.at[p][at.y]);
        __syncthreads();
    }
    c.finish(g, tile.i + at.x, tile.j + at.y);
}

template <int I>
struct register_family : block_shape<ALGORITHM_REGISTER, I> {
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return registers<T, TRANS_A, TRANS_B, block_shape<ALGORITHM_REGISTER, I>>;
    }
};

const kernel_code code_register = {launch_shape<ALGORITHM_REGISTER, register_family>, nullptr,
                                   nullptr, false};
#endif
