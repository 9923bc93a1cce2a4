/* Algorithm 6, tma: FP64 tensor cores, fed by the tensor memory accelerator, TMA (sm_90a).
 *
 * The idea: on Hopper one thread requests a whole piece; TMA computes the addresses, swizzles,
 * fills elements outside with zeros, and signals a barrier in shared memory when all bytes have
 * arrived.  Warps are specialised: one warp, the producer, only issues requests, and the consumers
 * only multiply.  Instead of a block barrier per step, each stage has a barrier "full", on which
 * the consumers wait, and a barrier "empty", on which the producer waits, so that warps may drift
 * apart by several stages.  Blocks are persistent: each computes tile after tile, and while one
 * warp runs its epilogue, others still multiply, and pieces of the next tile arrive.
 *
 * The consumers need more registers than an even distribution among the warps of a block allows, so
 * the producers give up most of theirs (setmaxnreg, in groups of four warps).  That instruction
 * exists on sm_90a only; on other GPUs algorithm 5 runs instead.  Where TMA cannot address an
 * operand (columns not aligned to 16 bytes), four warps copy with cp.async. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_tma = {
    GPU_KERNEL(tma),
    .architecture = "90a",
    .same_bits = true,
    .running_sum = true,
    .reports_peaks[SCALAR_FLOAT] = true,
    .shapes = 1,
    .rates[SCALAR_DOUBLE] = {{90, 90, 256}},
    .of_peak = 0.86,
    .of_best = 1,
};
#else
#include "gemm_copier.cuh"
#include "gemm_mma.cuh"
#include "tma.cuh"

/* The layout of shared memory: the stages, then their barriers. */
template <class SHAPE>
struct layout {
    static constexpr int STAGES = SHAPE::STAGES, BYTES = SHAPE::BYTES + STAGES * 16;
    unsigned memory;

    __device__ __forceinline__ unsigned piece(int stage) const
    {
        return memory + stage * SHAPE::STAGE;
    }

    __device__ __forceinline__ unsigned full(int stage) const
    {
        return memory + SHAPE::BYTES + stage * 8;
    }

    __device__ __forceinline__ unsigned empty(int stage) const
    {
        return full(stage + STAGES);
    }

    __device__ __forceinline__ void init(int producers) const
    {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(full(stage), producers);
            barrier_init(empty(stage), SHAPE::WARPS);
        }
        barrier_init_done();
    }
};

/* Request one piece of a stage: a k-major piece is one box, an x-major one has a box per block of
 * 16. */
template <int SIDE, bool K_MAJOR>
__device__ __forceinline__ void request(unsigned to, const CUtensorMap *map, int x, int p,
                                        unsigned barrier)
{
    if (K_MAJOR)
        copy_box(to, map, p, x, barrier);
    else
#pragma unroll
        for (int block = 0; block < SIDE / 16; block++)
            copy_box(to + block * MMA_BLOCK, map, x + block * 16, p, barrier);
}

/* The consumers' end of the pipeline. */
template <class SHAPE>
struct tma_pipe {
    layout<SHAPE> shared;
    ring_position<SHAPE::STAGES> next, oldest;

    __device__ __forceinline__ unsigned acquire()
    {
        const unsigned piece = shared.piece(next.stage);
        barrier_wait(shared.full(next.stage), next.phase);
        next.advance();
        return piece;
    }

    /* The fence orders this warp's loads before TMA's next writes to the stage. */
    __device__ __forceinline__ void release()
    {
        copy_box_fence();
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            barrier_arrive(shared.empty(oldest.stage));
        oldest.advance();
    }

    __device__ __forceinline__ void fill()
    {
    }
};

/* A turn (gemm_mma_maps.h) as a part of C.  Block b computes the turns b, b + gridDim.x, ... */
struct turn_of_c {
    origin tile;
    int columns; /* from the tile's first one on */
};

template <class SHAPE>
__device__ __forceinline__ turn_of_c turn_at(unsigned t, const mma_schedule &work)
{
    constexpr int HALF = SHAPE::TILE_N / 2;
    const mma_turn turn = mma_turn_of(t, work);
    turn_of_c c = {origin_of<SHAPE>(turn.tile), turn.halves * HALF};
    c.tile.j += turn.half * HALF;
    return c;
}

/* Prefetch a tile of C to L2, for sums that start from it. */
template <class SHAPE>
__device__ __forceinline__ void prefetch_c(const product<double> &g, origin tile)
{
    constexpr int LINES = SHAPE::TILE_M / 16; /* cache lines of 128 bytes in a column */
    for (int line = threadIdx.x % 32; line < LINES * SHAPE::TILE_N; line += 32) {
        const int64_t i = tile.i + line % LINES * 16, j = tile.j + line / LINES;
        if (i < g.m && j < g.n)
            prefetch_l2(g.c + i + j * g.ldc);
    }
}

/* The producer warp: request the pieces of all turns of this block, in order. */
template <class SHAPE, bool K_MAJOR_A, bool K_MAJOR_B>
__device__ __forceinline__ void produce(const product<double> &g, mma_schedule work,
                                        layout<SHAPE> shared, const CUtensorMap *a,
                                        const CUtensorMap *b)
{
    ring_position<SHAPE::STAGES> next;
    for (unsigned t = blockIdx.x; t < work.turns; t += gridDim.x) {
        const origin tile = turn_at<SHAPE>(t, work).tile;
        if (g.resume)
            prefetch_c<SHAPE>(g, tile);
        for (int p = 0; p < (int)g.k && threadIdx.x % 32 == 0; p += MMA_STEP) {
            const unsigned piece = shared.piece(next.stage), full = shared.full(next.stage);
            barrier_wait(shared.empty(next.stage), next.phase ^ 1);
            barrier_expect(full, SHAPE::STAGE);
            request<SHAPE::TILE_M, K_MAJOR_A>(piece, a, (int)tile.i, p, full);
            request<SHAPE::TILE_N, K_MAJOR_B>(piece + SHAPE::BYTES_A, b, (int)tile.j, p, full);
            next.advance();
        }
        __syncwarp();
    }
}

/* Where TMA cannot address A or B, four producer warps copy 8 bytes at a time by cp.async. */
constexpr int PRODUCERS = 128;

template <class SHAPE, bool K_MAJOR_A, bool K_MAJOR_B>
__device__ __forceinline__ void produce_cp_async(const product<double> &g, mma_schedule work,
                                                 layout<SHAPE> shared)
{
    const int thread = threadIdx.x - SHAPE::WARPS * 32;
    ring_position<SHAPE::STAGES> next;
    for (unsigned t = blockIdx.x; t < work.turns; t += gridDim.x) {
        const origin tile = turn_at<SHAPE>(t, work).tile;
        copier<PRODUCERS, SHAPE::TILE_M, K_MAJOR_A, 1> a({g.a, g.lda, g.m, g.k, 0}, tile.i, thread);
        copier<PRODUCERS, SHAPE::TILE_N, K_MAJOR_B, 1> b({g.b, g.ldb, g.n, g.k, 0}, tile.j, thread);
        if (g.resume && thread < 32)
            prefetch_c<SHAPE>(g, tile);
        for (int left = (int)g.k; left > 0; left -= MMA_STEP) {
            const unsigned piece = shared.piece(next.stage);
            barrier_wait(shared.empty(next.stage), next.phase ^ 1);
            a.copy(piece, left);
            b.copy(piece + SHAPE::BYTES_A, left);
            barrier_arrive_copied(shared.full(next.stage));
            next.advance();
        }
    }
    cp_async_wait_all();
}

template <class SHAPE, bool TRANS_A, bool TRANS_B, bool CP_ASYNC>
__global__ void __launch_bounds__(SHAPE::WARPS * 32 + PRODUCERS, 1)
    tma(const product<double> g, mma_schedule work, const __grid_constant__ CUtensorMap a,
        const __grid_constant__ CUtensorMap b)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    static_assert(SHAPE::WARPS == 2 * PRODUCERS / 32, "168 registers a thread become 40 and 232");
    const layout<SHAPE> shared = {shared_address(dynamic_shared())};
    if (threadIdx.x == 0)
        shared.init(CP_ASYNC ? PRODUCERS : 1);
    __syncthreads();

    if (threadIdx.x >= SHAPE::WARPS * 32) {
        registers_decrease<40>();
        if (CP_ASYNC)
            produce_cp_async<SHAPE, TRANS_A, !TRANS_B>(g, work, shared);
        else if (threadIdx.x / 32 == SHAPE::WARPS)
            produce<SHAPE, TRANS_A, !TRANS_B>(g, work, shared, &a, &b);
    } else {
        registers_increase<232>();
        tma_pipe<SHAPE> pipe = {shared, {}, {}};
        for (unsigned t = blockIdx.x; t < work.turns; t += gridDim.x) {
            const turn_of_c c = turn_at<SHAPE>(t, work);
            warp_tile<SHAPE, TRANS_A, !TRANS_B> part;
            part.compute(g, c.tile, c.columns, pipe);
        }
    }
#else
    __trap();
#endif
}

/* Make the tensor map of an operand of width x depth, with boxes for a tile of side `side`.  False
 * where TMA cannot address the operand. */
static bool describe(CUtensorMap *map, const double *memory, int64_t ld, int64_t width,
                     int64_t depth, int side, bool k_major)
{
    const auto encode = tensor_map_encoder();
    const cuuint64_t sizes[2] = {(cuuint64_t)(k_major ? depth : width),
                                 (cuuint64_t)(k_major ? width : depth)};
    const cuuint64_t pitch = (cuuint64_t)ld * sizeof *memory;
    const cuuint32_t box[2] = {16, (cuuint32_t)(k_major ? side : MMA_STEP)}, strides[2] = {1, 1};
    return encode && pairs_aligned(memory, ld) && width <= INT_MAX && depth <= INT_MAX &&
           encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 2, const_cast<double *>(memory), sizes,
                  &pitch, box, strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* The number of blocks that are resident on the GPU at once. */
template <class KERNEL>
static cudaError_t resident(KERNEL kernel, int threads, int bytes, unsigned *blocks)
{
    int device = 0, units = 0, each = 0;
    cudaError_t status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status == cudaSuccess)
        status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, bytes);
    *blocks = (unsigned)(units * each);
    return status;
}

template <class SHAPE, bool CP_ASYNC>
struct tma_family {
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return tma<SHAPE, TRANS_A, TRANS_B, CP_ASYNC>;
    }
};

template <class SHAPE>
static cudaError_t launch_tma(const struct gemm *gemm, cudaStream_t stream)
{
    const product<double> g = product_of<double>(gemm);
    const int64_t tiles = tile_count<SHAPE>(gemm);
    CUtensorMap a = {}, b = {};
    const bool engine = describe(&a, g.a, g.lda, g.m, g.k, SHAPE::TILE_M, gemm->trans_a) &&
                        describe(&b, g.b, g.ldb, g.n, g.k, SHAPE::TILE_N, !gemm->trans_b);
    const auto kernel = engine ? function_for<tma_family<SHAPE, false>, double>(gemm)
                               : function_for<tma_family<SHAPE, true>, double>(gemm);
    bool built = false;
    cudaError_t status = built_for_sm_90a(kernel, &built);
    if (status != cudaSuccess)
        return status;
    if (!built || tiles == 0 || tiles > INT_MAX || g.k == 0 || g.k > INT_MAX - MMA_STEP)
        return code_tensor.multiply(gemm, stream);

    const int threads = SHAPE::WARPS * 32 + PRODUCERS;
    unsigned blocks = 0;
    status = resident(kernel, threads, layout<SHAPE>::BYTES, &blocks);
    if (status != cudaSuccess)
        return status;
    if (gemm->leaves_room && blocks > 1)
        blocks--;
    const mma_schedule work = mma_schedule_of(tiles_of<SHAPE>(g), blocks);
    blocks = min(work.turns, blocks);
    return start_kernel(kernel, blocks, threads, layout<SHAPE>::BYTES, stream, g, work, a, b);
}

static cudaError_t gemm_tma(const struct gemm *gemm, cudaStream_t stream)
{
    if (gemm->type == SCALAR_FLOAT) /* algorithm 5 is the fastest for floats */
        return code_tensor.multiply(gemm, stream);
    return launch_tma<mma_shape<2, 4, 4, 2, 6>>(gemm, stream);
}

const kernel_code code_tma = {gemm_tma, nullptr, nullptr, false};
#endif
