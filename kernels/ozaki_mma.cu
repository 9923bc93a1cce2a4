/* Products of planes on the tensor cores of compute capability 8.0 up, by mma.sync.
 *
 * A block computes a tile of one plane of C; copies into a ring of shared memory run ahead. Columns
 * of op(B) are the rows of the instruction, so that a thread's sums are neighbours in C: of each
 * two instructions side by side it holds four, for which the rows of op(A) are permuted as they are
 * loaded. Chunks of 16 bytes are swizzled, so that a warp's loads meet no bank twice. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_mma = {
    GPU_KERNEL(mma),
    .rates[SCALAR_INT8] = {{80, 80, 4096}, {81, 89, 2048}, {90, CAPABILITY_ANY, 8192}},
    .of_peak = 0.3, /* a guess */
};
#else
#include "launch.cuh"
#include "ozaki_product.cuh"
#include "ptx.cuh"

constexpr int TILE = OZAKI_TILE, STEPS = 64, STAGES = 4, CHUNK = 16, CHUNKS = STEPS / CHUNK;
constexpr int WARPS_I = 4, WARPS_J = 2, THREADS = 32 * WARPS_I * WARPS_J;
constexpr int WARP_I = TILE / WARPS_I, WARP_J = TILE / WARPS_J;
constexpr int ACROSS_I = WARP_I / 8, ACROSS_J = WARP_J / 16; /* instructions of a warp */

/* STEPS bytes of each row of a tile. */
struct staged_rows {
    int8_t bytes[TILE][STEPS];
};

struct stage {
    staged_rows a, b;
};

/* Where the chunk of a row is in it.  SHIFT says which rows a load of 8 meets: neighbours, or every
 * second pair of them. */
template <int SHIFT>
__device__ __forceinline__ int swizzled(int row, int chunk)
{
    return ((chunk ^ row >> SHIFT) % CHUNKS) * CHUNK;
}

constexpr int NEIGHBOURS = 1, PAIRS = 2;

constexpr int APART = THREADS / CHUNKS;
static_assert(APART % 16 == 0, "so that a thread's chunks are at the same place of their rows");

/* What a thread copies of an operand's lines of a tile: the same chunk of each APART-th one.  It
 * keeps little beside its sums, which take half of its registers. */
struct line_feed {
    const int8_t *from; /* of its first line, next */
    int64_t pitch;
    int lines; /* that exist of the tile, from its first one on */
    int to;    /* in staged_rows */
};

template <int SHIFT>
__device__ __forceinline__ line_feed line_feed_of(const int8_t *tile, int64_t pitch, int64_t lines)
{
    const int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
    return {tile + row * pitch + chunk * CHUNK, pitch, (int)min(lines, (int64_t)TILE) - row,
            row * STEPS + swizzled<SHIFT>(row, chunk)};
}

/* Start copies of the next steps, of which `left` exist from the thread's chunk on; zeros stand for
 * what does not exist, whose address is never read. */
template <bool PADDED>
__device__ __forceinline__ void send(staged_rows &to, line_feed &of, int left)
{
#pragma unroll
    for (int row = 0; row < TILE; row += APART) {
        const int bytes = PADDED ? CHUNK : row < of.lines ? max(min(left, CHUNK), 0) : 0;
        cp_async<CHUNK>(to.bytes[row] + of.to, of.from + row * of.pitch, bytes);
    }
    of.from += STEPS;
}

template <int SHIFT>
__device__ __forceinline__ int word_at(staged_rows &piece, int row, int word)
{
    return *reinterpret_cast<const int *>(piece.bytes[row] + swizzled<SHIFT>(row, word / 4) +
                                          word % 4 * 4);
}

/* Row of op(A) that is column `n` of instruction `s`: a lane's columns are 2 t and 2 t + 1. */
__device__ __forceinline__ int permuted(int s, int n)
{
    return s / 2 * 16 + n / 2 * 4 + s % 2 * 2 + n % 2;
}

template <bool SIGNED_A, bool SIGNED_B>
__device__ __forceinline__ void multiply_stage(stage &from, int i0, int j0,
                                               int sum[ACROSS_J][ACROSS_I][4])
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int half = 0; half < STEPS / 32; half++) {
        const int word = 8 * half + t;
        int a[ACROSS_J][4], b[ACROSS_I][2];
#pragma unroll
        for (int v = 0; v < ACROSS_J; v++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                a[v][e] =
                    word_at<NEIGHBOURS>(from.b, j0 + 16 * v + g + e % 2 * 8, word + e / 2 * 4);
#pragma unroll
        for (int u = 0; u < ACROSS_I; u++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                b[u][e] = word_at<PAIRS>(from.a, i0 + permuted(u, g), word + e * 4);
#pragma unroll
        for (int v = 0; v < ACROSS_J; v++)
#pragma unroll
            for (int u = 0; u < ACROSS_I; u++)
                mma_m16n8k32<SIGNED_B, SIGNED_A>(sum[v][u], a[v], b[u]);
    }
}

template <class OUT, bool SIGNED_A, bool SIGNED_B, bool PADDED>
__global__ void __launch_bounds__(THREADS, 2) multiply_mma(const OUT out, const byte_planes planes)
{
    auto *ring = reinterpret_cast<stage *>(dynamic_shared());
    const int q = (int)blockIdx.z;
    const int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int i = warp % WARPS_I * WARP_I, j = warp / WARPS_I * WARP_J;
    const int steps = (int)((planes.k + STEPS - 1) / STEPS);
    line_feed a = line_feed_of<PAIRS>(planes.line_a(q, i0), planes.pitch_a, planes.m - i0);
    line_feed b = line_feed_of<NEIGHBOURS>(planes.line_b(q, j0), planes.pitch_b, planes.n - j0);
    int left = (int)planes.k - (int)threadIdx.x % CHUNKS * CHUNK; /* steps, from its chunk on */
    int sum[ACROSS_J][ACROSS_I][4] = {};

    const auto send_both = [&](int step) {
        if (step < steps) {
            send<PADDED>(ring[step % STAGES].a, a, left);
            send<PADDED>(ring[step % STAGES].b, b, left);
            left -= STEPS;
        }
        cp_async_commit();
    };
    for (int step = 0; step < STAGES - 1; step++)
        send_both(step);
    for (int step = 0; step < steps; step++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* the stage is there, and all have left the one before */
        send_both(step + STAGES - 1);
        multiply_stage<SIGNED_A, SIGNED_B>(ring[step % STAGES], i, j, sum);
    }

#pragma unroll
    for (int v = 0; v < ACROSS_J; v++)
#pragma unroll
        for (int u = 0; u < ACROSS_I; u += 2)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int *left = &sum[v][u][2 * half], *right = &sum[v][u + 1][2 * half];
                const int sums[4] = {left[0], left[1], right[0], right[1]};
                out.put(q, j0 + j + 16 * v + lane / 4 + 8 * half, i0 + i + 8 * u + lane % 4 * 4,
                        sums);
            }
}

template <bool SIGNED_A, bool SIGNED_B, bool PADDED, class OUT>
static cudaError_t start(const byte_planes &planes, const OUT &out, cudaStream_t stream)
{
    const dim3 grid((unsigned)((planes.m + TILE - 1) / TILE),
                    (unsigned)((planes.n + TILE - 1) / TILE), (unsigned)planes.count);
    const cudaError_t status = require_capability(8);
    if (status != cudaSuccess)
        return status;
    return start_kernel(multiply_mma<OUT, SIGNED_A, SIGNED_B, PADDED>, grid, THREADS,
                        STAGES * sizeof(stage), stream, out, planes);
}

static cudaError_t to_residues(const residues *moduli, const ozaki_planes *planes, bool,
                               cudaStream_t stream)
{
    return start<true, true, true>(planes_of(*moduli, *planes), residues_of(*moduli, *planes),
                                   stream);
}

static cudaError_t to_integers(const byte_planes *planes, const sums_out *out, bool,
                               cudaStream_t stream)
{
    return with_signs(*planes, [&](auto a, auto b) {
        return start<decltype(a)::value, decltype(b)::value, false>(*planes, *out, stream);
    });
}

const kernel_code code_mma = {nullptr, to_residues, to_integers, false};
#endif
