/* Algorithm 5 for floats, simt: FP32 multiply-adds and as few other instructions as possible.
 *
 * The idea: a Hopper SM issues just enough instructions per cycle to keep its FP32 lanes busy, so
 * that every other instruction costs a multiply-add.  8 x 16 elements per thread do 128
 * multiply-adds per 6 loads.  A step is straight-line code, with loads at constant offsets from two
 * addresses.  The elements of the next k are loaded while those of this one are multiplied, also
 * across the single barrier of a step.  The tile shape follows the shape of C. */
#include "gemm_async.cuh"
#include "gemm_peaks.cuh"

/* Accumulate all whole steps; update `peaks` before the first one and every PEAK_STEPS steps of
 * k. */
template <class SHAPE, class LOADER_A, class LOADER_B>
__device__ __forceinline__ void multiply_steps(typename SHAPE::sums &c, LOADER_A &a, LOADER_B &b,
                                               typename SHAPE::pieces *ring, int x, int y,
                                               int steps, const warp_peaks<SHAPE> &peaks)
{
    constexpr int STEP = SHAPE::STEP, STAGES = SHAPE::STAGES;
    typename SHAPE::sums::factors f[2];
    int stage = 0, free = STAGES - 1, step = 0;

    f[0].load(&ring[0].a.at[0][x], &ring[0].b.at[0][y]);
    do {
        peaks.update(c);
        for (const int end = min(step + PEAK_STEPS / STEP, steps); step < end; step++) {
            const int next = stage + 1 == STAGES ? 0 : stage + 1;
            const bool more = step + STAGES - 1 < steps;
#pragma unroll
            for (int p = 0; p < STEP; p++) {
                if (p + 1 < STEP) {
                    f[(p + 1) % 2].load(&ring[stage].a.at[p + 1][x], &ring[stage].b.at[p + 1][y]);
                } else {
                    cp_async_commit();
                    cp_async_wait<STAGES - 2>();
                    block_barrier<SHAPE::THREADS>();
                    f[0].load(&ring[next].a.at[0][x], &ring[next].b.at[0][y]);
                }
                /* All threads had finished reading this stage at the last barrier. */
                if (p == 1) {
                    a.issue(ring[free].a, more);
                    b.issue(ring[free].b, more);
                }
                c.multiply(f[p % 2]);
            }
            free = stage;
            stage = next;
        }
    } while (step < steps);
}

/* The counterpart for a warp whose tile is outside of C: it takes part in the copies and
 * barriers. */
template <class SHAPE, class LOADER_A, class LOADER_B>
__device__ __forceinline__ void copy_steps(LOADER_A &a, LOADER_B &b, typename SHAPE::pieces *ring,
                                           int steps)
{
    constexpr int STAGES = SHAPE::STAGES;
    for (int step = 0, free = STAGES - 1; step < steps; step++) {
        a.issue(ring[free].a, step + STAGES - 1 < steps);
        b.issue(ring[free].b, step + STAGES - 1 < steps);
        cp_async_commit();
        cp_async_wait<STAGES - 2>();
        block_barrier<SHAPE::THREADS>();
        free = free + 1 == STAGES ? 0 : free + 1;
    }
}

template <class SHAPE, bool TRANS_A, bool TRANS_B, int RUN_A, int RUN_B>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS) simt(const product<float> g)
{
    using s = SHAPE;
    auto *ring = reinterpret_cast<typename s::pieces *>(dynamic_shared());
    const origin tile = tile_origin<s::TILE_M, s::TILE_N>(g.m);
    const simt_place warp = simt_corner(threadIdx.x / 32, s::WARPS_M, s::WARP_M, s::WARP_N);
    const simt_place lane = simt_lane(threadIdx.x % 32, s::RUN);
    const int x = warp.x + lane.x, y = warp.y + lane.y;
    const int steps = (int)(g.k / s::STEP), rest = (int)(g.k % s::STEP);
    loader<float, s::THREADS, s::TILE_M, s::STEP, TRANS_A, RUN_A> a(operand_a<TRANS_A>(g), tile.i);
    loader<float, s::THREADS, s::TILE_N, s::STEP, !TRANS_B, RUN_B> b(operand_b<TRANS_B>(g), tile.j);
    typename s::sums c;
    const warp_peaks<s> peaks(g, tile.i + x, tile.j + y);

    fill_ring<s::STAGES>(a, b, ring, steps);
    c.start(g, tile.i + x, tile.j + y);
    cp_async_wait<s::STAGES - 2>();
    __syncthreads();
    if (tile.i + warp.x < g.m && tile.j + warp.y < g.n)
        multiply_steps<s>(c, a, b, ring, x, y, steps, peaks);
    else
        copy_steps<s>(a, b, ring, steps);
    multiply_remainder(c, a, b, ring[(steps + s::STAGES - 1) % s::STAGES], x, y, s::STAGES - 1,
                       rest);
    peaks.update(c);
    c.finish(g, tile.i + x, tile.j + y);
}

template <class SHAPE>
struct simt_kernels {
    template <bool WIDE_A, bool WIDE_B>
    struct family : SHAPE {
        template <typename T, bool TRANS_A, bool TRANS_B>
        static auto function()
        {
            return simt<SHAPE, TRANS_A, TRANS_B, loader_run<T, TRANS_A, WIDE_A>,
                        loader_run<T, !TRANS_B, WIDE_B>>;
        }
    };
};

/* Whether tiles of this shape occupy at least three quarters of the SMs. */
template <class SHAPE>
static bool simt_fills(const struct gemm *gemm, int sms)
{
    return 4 * tile_count<SHAPE>(gemm) >= 3 * (int64_t)sms;
}

cudaError_t gemm_simt(const struct gemm *gemm, cudaStream_t stream)
{
    using large = async_shape<float, block_shape<ALGORITHM_TENSOR, 0>>;
    using medium = async_shape<float, block_shape<ALGORITHM_TENSOR, 1>>;
    using small = async_shape<float, block_shape<ALGORITHM_TENSOR, 2>>;
    int device = 0, sms = 1;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (status != cudaSuccess)
        return status;
    if (simt_fills<large>(gemm, sms))
        return launch_async<float, simt_kernels<large>::family>(gemm, stream);
    if (simt_fills<medium>(gemm, sms))
        return launch_async<float, simt_kernels<medium>::family>(gemm, stream);
    return launch_async<float, simt_kernels<small>::family>(gemm, stream);
}
