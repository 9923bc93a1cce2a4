/* Algorithm 0, naive: one element of C per thread.
 *
 * The idea: m n independent sums are enough parallelism.  Consecutive threads compute consecutive
 * rows, so that a warp's accesses to columns of C, and of A if not transposed, are coalesced.  But
 * each element of A is loaded n times and each of B m times: with two loads per multiply-add the
 * kernel is limited by the caches. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_naive = {
    GPU_KERNEL(naive), .same_bits = true, .running_sum = true, .shapes = 3, .of_best = 0.05,
};
#else
#include "gemm_common.cuh"

template <typename T, bool TRANS_A, bool TRANS_B, class S>
__global__ void __launch_bounds__(S::THREADS) naive(const product<T> g)
{
    const origin tile = tile_origin<S::TILE_M, S::TILE_N>(g.m);
    const simt_place at = simt_corner(threadIdx.x, S::THREADS_M, 1, 1);
    const int64_t i = tile.i + at.x, j = tile.j + at.y;
    if (i >= g.m || j >= g.n)
        return;

    const auto a = operand_a<TRANS_A>(g);
    const auto b = operand_b<TRANS_B>(g);
    T *c = g.c + i + j * g.ldc;
    T sum = sum_start(g, c);
    for (int64_t p = 0; p < g.k; p++)
        sum = multiply_add(a.at(i, p), b.at(j, p), sum);
    sum_finish(g, sum, c);
}

template <int I>
struct naive_family : block_shape<ALGORITHM_NAIVE, I> {
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return naive<T, TRANS_A, TRANS_B, block_shape<ALGORITHM_NAIVE, I>>;
    }
};

const kernel_code code_naive = {launch_shape<ALGORITHM_NAIVE, naive_family>, nullptr, nullptr,
                                false};
#endif
