/* Products of planes on Hopper (sm_90a): wgmma fed by TMA.
 *
 * As in gemm_tma.cu, blocks are persistent, one thread requests and two groups of four warps
 * multiply.  A cluster of two blocks shares the rows of op(A): each requests half of them for both.
 * Columns of op(B) are the rows of the instruction, so that the sums of a quad of lanes are
 * neighbours in C. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_wgmma = {
    GPU_KERNEL(wgmma), .architecture = "90a", .rates[SCALAR_INT8] = {{90, 90, 8192}},
    .of_peak = 0.62, /* 0.60 to 0.64 as measured on H100s and H200s, which power holds back */
};
#else
#include "ozaki_product.cuh"
#include "tma.cuh"

constexpr int CLUSTER = 2, BOX = 128, STEP = 128; /* blocks; rows of a box; steps of a row */
constexpr int GROUPS = 2, GROUP_THREADS = 128, GROUP_J = 64;
constexpr int THREADS = (GROUPS + 1) * GROUP_THREADS;            /* the last group requests */
constexpr int TILE_I = CLUSTER * BOX, TILE_J = GROUPS * GROUP_J; /* of C, each block's */
constexpr int BYTES_A = TILE_I * STEP, BYTES_B = TILE_J * STEP, STAGE = BYTES_A + BYTES_B;
constexpr int STAGES = 4, SHARED = STAGES * STAGE + STAGES * 16;
constexpr int CLUSTER_J = CLUSTER * TILE_J;
constexpr int ABREAST = 8; /* tiles across C that are multiplied before the next ones down */
static_assert(TILE_J == BOX, "one box of op(B), and one of op(A) for each block of the cluster");

using ring = ring_position<STAGES>;

/* Shared memory: the stages, each op(A) and op(B); barriers that a stage is full; that it is empty
 * in all blocks of the cluster. */
struct stages {
    unsigned memory;

    __device__ __forceinline__ unsigned a(int stage) const
    {
        return memory + stage * STAGE;
    }

    __device__ __forceinline__ unsigned b(int stage) const
    {
        return a(stage) + BYTES_A;
    }

    __device__ __forceinline__ unsigned full(int stage) const
    {
        return memory + STAGES * STAGE + stage * 8;
    }

    __device__ __forceinline__ unsigned empty(int stage) const
    {
        return full(stage) + STAGES * 8;
    }
};

/* What a cluster computes in a turn: a tile of the plane of modulus q, TILE_I x CLUSTER_J. */
struct turns {
    unsigned down, across, count;
};

struct turn {
    int q, i, j;
};

__device__ __forceinline__ turn turn_at(const turns &all, unsigned t)
{
    const unsigned plane = all.down * all.across, within = t % plane;
    const unsigned first = within / (ABREAST * all.down) * ABREAST;
    const unsigned width = min(all.across - first, (unsigned)ABREAST);
    const unsigned place = within - first * all.down;
    return {(int)(t / plane), (int)(place / width) * TILE_I,
            (int)(first + place % width) * CLUSTER_J};
}

__device__ __forceinline__ void request(const turns &all, int steps, stages shared,
                                        const CUtensorMap *a, const CUtensorMap *b)
{
    const unsigned rank = cluster_rank();
    ring next;
    for (unsigned t = blockIdx.x / CLUSTER; t < all.count; t += gridDim.x / CLUSTER) {
        const turn at = turn_at(all, t);
        for (int step = 0; step < steps; step++) {
            const unsigned full = shared.full(next.stage);
            barrier_wait(shared.empty(next.stage), next.phase ^ 1);
            barrier_expect(full, STAGE);
            copy_box_to(shared.a(next.stage) + rank * BOX * STEP, a, step * STEP,
                        at.i + (int)rank * BOX, at.q, full, (1 << CLUSTER) - 1);
            copy_box_to(shared.b(next.stage), b, step * STEP, at.j + (int)rank * TILE_J, at.q, full,
                        (uint16_t)(1 << rank));
            next.advance();
        }
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr int WARPS = GROUPS * GROUP_THREADS / 32; /* that multiply */

/* Tell all blocks of the cluster that this warp has read a stage. */
__device__ __forceinline__ void release(stages shared, int stage)
{
    if (threadIdx.x % 32 < CLUSTER)
        barrier_arrive_at(shared.empty(stage), threadIdx.x % 32);
}

/* One stage's products are in flight while the next are started. */
template <bool SIGNED_A, bool SIGNED_B>
__device__ __forceinline__ void multiply_tile(int steps, stages shared, int group, ring &next,
                                              int (&sum)[128])
{
    for (int step = 0, before = 0; step < steps; step++) {
        const uint64_t a = wgmma_operand(shared.a(next.stage));
        const uint64_t b = wgmma_operand(shared.b(next.stage) + group * GROUP_J * STEP);
        barrier_wait(shared.full(next.stage), next.phase);
        wgmma_fence();
#pragma unroll
        for (int part = 0; part < STEP / 32; part++)
            wgmma_m64n256k32<SIGNED_B, SIGNED_A>(sum, b + 2 * part, a + 2 * part,
                                                 step > 0 || part > 0);
        wgmma_commit();
        if (step > 0) {
            wgmma_wait<1>(sum);
            release(shared, before);
        }
        before = next.stage;
        next.advance();
    }
    wgmma_wait<0>(sum);
    release(shared, (next.stage + STAGES - 1) % STAGES);
}

/* Two lanes whose numbers differ in `bit` exchange a word: the right one of the lane without the
 * bit, and the left one of the other. */
__device__ __forceinline__ void exchange(uint32_t &left, uint32_t &right, int bit)
{
    const bool high = threadIdx.x & bit;
    const uint32_t got = __shfl_xor_sync(~0u, high ? left : right, bit);
    (high ? left : right) = got;
}

/* Word t of lane s becomes word s of lane t, in each quad of lanes. */
__device__ __forceinline__ void transpose(uint32_t word[4])
{
    exchange(word[0], word[1], 1);
    exchange(word[2], word[3], 1);
    exchange(word[0], word[2], 2);
    exchange(word[1], word[3], 2);
}

/* Reduce and store sums: a lane collects 16 neighbours in C of each 64. */
__device__ __forceinline__ void store_tile(const residues_out &out, const turn &at, int64_t j,
                                           const int (&sum)[128])
{
    const int lane = threadIdx.x % 32;
    int8_t *c = out.c + (at.q * out.n + j + lane / 4) * out.m + at.i + lane % 4 * 16;
#pragma unroll
    for (int part = 0; part < TILE_I / 64; part++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t word[4];
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const int *left = &sum[32 * part + 8 * w + 2 * half];
                const int sums[4] = {left[0], left[1], left[4], left[5]};
                word[w] = out.packed(at.q, sums);
            }
            transpose(word);
            const uint4 sixteen = {
                __byte_perm(word[0], word[1], 0x5410), __byte_perm(word[2], word[3], 0x5410),
                __byte_perm(word[0], word[1], 0x7632), __byte_perm(word[2], word[3], 0x7632)};
            if (at.i + 64 * part < out.m && j < out.n)
                *reinterpret_cast<uint4 *>(c + 64 * part + 8 * half * out.m) = sixteen;
        }
}

/* Add sums to C: two neighbours at a time, which the four lanes of a quad continue. */
__device__ __forceinline__ void store_tile(const sums_out &out, const turn &at, int64_t j,
                                           const int (&sum)[128])
{
    const int lane = threadIdx.x % 32;
    const bool paired = (reinterpret_cast<uintptr_t>(out.c) | (uintptr_t)out.ldc * 8) % 16 == 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int64_t column = j + lane / 4 + 8 * half;
        uint64_t *c = out.c + column * out.ldc;
#pragma unroll
        for (int group = 0; group < TILE_I / 8; group++) {
            const int64_t row = at.i + 8 * group + lane % 4 * 2;
            const int left = sum[4 * group + 2 * half], right = sum[4 * group + 2 * half + 1];
            if (!paired || row + 1 >= out.m || column >= out.n) {
                out.put_one(column, row, left);
                out.put_one(column, row + 1, right);
                continue;
            }
            ulonglong2 *two = reinterpret_cast<ulonglong2 *>(c + row);
            const ulonglong2 before = out.add ? *two : ulonglong2{0, 0};
            *two = {before.x + out.shifted(left), before.y + out.shifted(right)};
        }
    }
}
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

template <class OUT, bool SIGNED_A, bool SIGNED_B>
__global__ void IN_CLUSTERS __launch_bounds__(THREADS, 1)
    multiply_wgmma(const OUT out, const int steps, const turns all,
                   const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    const stages shared = {shared_address(dynamic_shared())};
    const int group = threadIdx.x / GROUP_THREADS;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(shared.full(stage), 1);
            barrier_init(shared.empty(stage), CLUSTER * WARPS);
        }
        barrier_init_done();
    }
    cluster_barrier();

    if (group == GROUPS) {
        registers_decrease<40>();
        if (threadIdx.x == GROUPS * GROUP_THREADS)
            request(all, steps, shared, &a, &b);
    } else {
        registers_increase<232>();
        const int64_t j = cluster_rank() * TILE_J + threadIdx.x / 32 * 16;
        ring next;
        for (unsigned t = blockIdx.x / CLUSTER; t < all.count; t += gridDim.x / CLUSTER) {
            const turn at = turn_at(all, t);
            int sum[128];
            multiply_tile<SIGNED_A, SIGNED_B>(steps, shared, group, next, sum);
            store_tile(out, at, at.j + j, sum);
        }
    }
    __syncwarp();
    cluster_barrier(); /* no block leaves while the other may still write to it */
#else
    __trap();
#endif
}

/* The planes of an operand, of `rows` rows each; what is read beyond rows and depth is 0. */
static bool describe(CUtensorMap *map, const int8_t *planes, int64_t rows, int64_t pitch,
                     int64_t depth, int count)
{
    const auto encode = tensor_map_encoder();
    const cuuint64_t sizes[3] = {(cuuint64_t)depth, (cuuint64_t)rows, (cuuint64_t)count};
    const cuuint64_t pitches[2] = {(cuuint64_t)pitch, (cuuint64_t)(pitch * rows)};
    const cuuint32_t box[3] = {STEP, BOX, 1}, strides[3] = {1, 1, 1};
    return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, (void *)planes, sizes, pitches,
                            box, strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

static cudaError_t processors(unsigned *count)
{
    int device = 0, units = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device);
    *count = (unsigned)units;
    return status;
}

/* *built: false where this GPU, or its driver, cannot run the kernel, which is then not started. */
template <bool SIGNED_A, bool SIGNED_B, class OUT>
static cudaError_t start(const byte_planes &planes, const OUT &out, bool leaves_room, bool *built,
                         cudaStream_t stream)
{
    CUtensorMap a = {}, b = {};
    unsigned units = 0;
    const auto kernel = multiply_wgmma<OUT, SIGNED_A, SIGNED_B>;
    cudaError_t status = built_for_sm_90a(kernel, built);
    if (status == cudaSuccess)
        status = processors(&units);
    *built = *built && describe(&a, planes.a, planes.m, planes.pitch_a, planes.k, planes.count) &&
             describe(&b, planes.b, planes.n, planes.pitch_b, planes.k, planes.count);
    if (status != cudaSuccess || !*built)
        return status;

    turns all = {(unsigned)((planes.m + TILE_I - 1) / TILE_I),
                 (unsigned)((planes.n + CLUSTER_J - 1) / CLUSTER_J), 0};
    all.count = all.down * all.across * (unsigned)planes.count;
    const unsigned clusters = max(units / CLUSTER, 2u) - (leaves_room ? 1 : 0);
    const unsigned blocks = min(all.count, clusters) * CLUSTER;
    const int steps = (int)((planes.k + STEP - 1) / STEP);
    return start_kernel(kernel, blocks, THREADS, SHARED, stream, out, steps, all, a, b);
}

static cudaError_t to_residues(const residues *moduli, const ozaki_planes *planes, bool leaves_room,
                               cudaStream_t stream)
{
    bool built = false;
    const cudaError_t status = start<true, true>(
        planes_of(*moduli, *planes), residues_of(*moduli, *planes), leaves_room, &built, stream);
    return status == cudaSuccess && !built
               ? code_mma.to_residues(moduli, planes, leaves_room, stream)
               : status;
}

static cudaError_t to_integers(const byte_planes *planes, const sums_out *out, bool leaves_room,
                               cudaStream_t stream)
{
    bool built = false;
    const cudaError_t status = with_signs(*planes, [&](auto a, auto b) {
        return start<decltype(a)::value, decltype(b)::value>(*planes, *out, leaves_room, &built,
                                                             stream);
    });
    return status == cudaSuccess && !built ? code_mma.to_integers(planes, out, leaves_room, stream)
                                           : status;
}

const kernel_code code_wgmma = {nullptr, to_residues, to_integers, false};
#endif
