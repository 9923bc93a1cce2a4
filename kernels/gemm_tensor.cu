/* Algorithm 5, tensor: FP64 tensor cores, fed by asynchronous copies (sm_80 and later).
 *
 * The idea: tensor cores have twice the FP64 rate of the other cores, so everything else has to be
 * hidden.  Copies from global to shared memory bypass the registers (cp.async), and several pieces
 * are in flight while one is multiplied.  Pieces keep the layout of global memory, swizzled against
 * bank conflicts (gemm_mma_maps.h): the four transpositions are the pairings of two kinds of
 * piece. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_tensor = {
    GPU_KERNEL(tensor),
    .same_bits = true,
    .running_sum = true,
    .reports_peaks[SCALAR_FLOAT] = true,
    .shapes = 1,
    .rates[SCALAR_FLOAT] = {{80, 80, 128}, {80, CAPABILITY_ANY, 256}},
    .rates[SCALAR_DOUBLE] = {{80, 80, 128}, {90, 90, 256}, {100, 100, 128}},
    .of_peak = 0.86,
    .of_best = 0.88,
};
#else
#include "gemm_copier.cuh"
#include "gemm_mma.cuh"

/* The pipeline of pieces for one tile, filled STAGES - 1 stages ahead of the one in use. */
template <class SHAPE, bool K_MAJOR_A, bool K_MAJOR_B, int COPY>
struct async_pipe {
    static constexpr int THREADS = SHAPE::WARPS * 32;

    copier<THREADS, SHAPE::TILE_M, K_MAJOR_A, COPY> a;
    copier<THREADS, SHAPE::TILE_N, K_MAJOR_B, COPY> b;
    unsigned memory, read, write; /* read, write: the next stages to be read and filled */
    int64_t left;                 /* steps of k that are still to be copied */

    __device__ __forceinline__ async_pipe(const product<double> &g, origin tile, unsigned shared)
        : a({g.a, g.lda, g.m, g.k, 0}, tile.i, threadIdx.x),
          b({g.b, g.ldb, g.n, g.k, 0}, tile.j, threadIdx.x), memory(shared), read(0), write(0),
          left(g.k)
    {
        for (int stage = 0; stage < SHAPE::STAGES - 1; stage++)
            fill();
    }

    __device__ __forceinline__ unsigned next(unsigned &stage)
    {
        const unsigned at = memory + stage * SHAPE::STAGE;
        stage = stage + 1 == SHAPE::STAGES ? 0 : stage + 1;
        return at;
    }

    __device__ __forceinline__ void fill()
    {
        const unsigned stage = next(write);
        if (left > 0) {
            a.copy(stage, (int)min(left, (int64_t)MMA_STEP));
            b.copy(stage + SHAPE::BYTES_A, (int)min(left, (int64_t)MMA_STEP));
        }
        left -= MMA_STEP;
        cp_async_commit();
    }

    /* After the barrier the copies of all threads have arrived, and all threads have read the
     * preceding stage, which is the next to be filled. */
    __device__ __forceinline__ unsigned acquire()
    {
        cp_async_wait<SHAPE::STAGES - 2>();
        block_barrier<THREADS>();
        return next(read);
    }

    __device__ __forceinline__ void release()
    {
    }
};

template <class SHAPE, bool TRANS_A, bool TRANS_B, int COPY>
__global__ void __launch_bounds__(SHAPE::WARPS * 32) tensor(const product<double> g)
{
    const origin tile = origin_of<SHAPE>(mma_order(blockIdx.x, tiles_of<SHAPE>(g)));
    async_pipe<SHAPE, TRANS_A, !TRANS_B, COPY> pipe(g, tile, shared_address(dynamic_shared()));
    warp_tile<SHAPE, TRANS_A, !TRANS_B> part;
    part.compute(g, tile, SHAPE::TILE_N, pipe);
}

template <class SHAPE, int COPY>
struct tensor_family : SHAPE {
    static constexpr int THREADS = SHAPE::WARPS * 32, SHARED = SHAPE::BYTES;
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return tensor<SHAPE, TRANS_A, TRANS_B, COPY>;
    }
};

static cudaError_t gemm_tensor(const struct gemm *gemm, cudaStream_t stream)
{
    if (gemm->type == SCALAR_FLOAT) /* tensor cores do not support FP32 */
        return gemm_simt(gemm, stream);
    using shape = mma_shape<2, 2, 2, 4, 3>;
    const cudaError_t status = require_capability(8);
    if (status != cudaSuccess)
        return status;
    return pairs_aligned(gemm->a, gemm->lda) && pairs_aligned(gemm->b, gemm->ldb)
               ? launch_typed<tensor_family<shape, 2>, double>(gemm, stream)
               : launch_typed<tensor_family<shape, 1>, double>(gemm, stream);
}

const kernel_code code_tensor = {gemm_tensor, nullptr, nullptr, false};
#endif
