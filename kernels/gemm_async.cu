/* Algorithm 4, async: multistage pipeline of cp.async copies, and warp tiles.
 *
 * The idea: a ring of STAGES pairs of pieces in shared memory.  While the block multiplies one
 * pair, the copies of the next STAGES - 1 are in flight, without occupying registers or stalling
 * threads.  The 32 threads of a warp compute a compact part of the tile, so that they read few
 * distinct elements of each row. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_async = {
    GPU_KERNEL(async),
    .same_bits = true,
    .running_sum = true,
    .shapes = 1,
    .rates[SCALAR_DOUBLE] = {{80, CAPABILITY_ANY, 4}},
    .of_peak = 0.86,
    .of_best = 0.45,
};
#else
#include "gemm_async.cuh"

template <typename T, class SHAPE, bool TRANS_A, bool TRANS_B, int RUN_A, int RUN_B>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS) async(const product<T> g)
{
    using s = SHAPE;
    auto *ring = reinterpret_cast<typename s::pieces *>(dynamic_shared());
    const origin tile = tile_origin<s::TILE_M, s::TILE_N>(g.m);
    const simt_place warp = simt_corner(threadIdx.x / 32, s::WARPS_M, s::WARP_M, s::WARP_N);
    const simt_place lane = simt_lane(threadIdx.x % 32, s::RUN);
    const int x = warp.x + lane.x, y = warp.y + lane.y;
    loader<T, s::THREADS, s::TILE_M, s::STEP, TRANS_A, RUN_A> a(operand_a<TRANS_A>(g), tile.i);
    loader<T, s::THREADS, s::TILE_N, s::STEP, !TRANS_B, RUN_B> b(operand_b<TRANS_B>(g), tile.j);
    typename s::sums c;

    const int64_t steps = g.k / s::STEP;
    fill_ring<s::STAGES>(a, b, ring, steps);
    c.start(g, tile.i + x, tile.j + y);

    int stage = 0, free = s::STAGES - 1;
    for (int64_t step = 0; step < steps; step++) {
        cp_async_wait<s::STAGES - 2>();
        __syncthreads();
#pragma unroll
        for (int p = 0; p < s::STEP; p++) {
            c.multiply_row(&ring[stage].a.at[p][x], &ring[stage].b.at[p][y]);
            if (p > 0)
                continue;
            /* All threads have read the preceding stage: refill it with the step furthest ahead. */
            a.issue(ring[free].a, step + s::STAGES - 1 < steps);
            b.issue(ring[free].b, step + s::STAGES - 1 < steps);
            cp_async_commit();
        }
        free = stage;
        stage = stage + 1 == s::STAGES ? 0 : stage + 1;
    }
    multiply_remainder(c, a, b, ring[stage], x, y, s::STAGES - 1, (int)(g.k % s::STEP));
    c.finish(g, tile.i + x, tile.j + y);
}

template <typename SUM, int I>
struct async_kernels {
    using shape = async_shape<SUM, block_shape<ALGORITHM_ASYNC, I>>;
    template <bool WIDE_A, bool WIDE_B>
    struct family : shape {
        template <typename T, bool TRANS_A, bool TRANS_B>
        static auto function()
        {
            return async<T, shape, TRANS_A, TRANS_B, loader_run<T, TRANS_A, WIDE_A>,
                         loader_run<T, !TRANS_B, WIDE_B>>;
        }
    };
};

static cudaError_t gemm_async(const struct gemm *gemm, cudaStream_t stream)
{
    return gemm->type == SCALAR_FLOAT
               ? launch_async<float, async_kernels<float, SCALAR_FLOAT>::family>(gemm, stream)
               : launch_async<double, async_kernels<double, SCALAR_DOUBLE>::family>(gemm, stream);
}

const kernel_code code_async = {gemm_async, nullptr, nullptr, false};
#endif
