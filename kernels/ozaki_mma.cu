/* Products of planes on the tensor cores of compute capability 8.0 up, by mma.sync.
 *
 * A block computes a tile of one plane of C; copies into a ring of shared memory run ahead. Columns
 * of op(B) are the rows of the instruction, so that a thread's sums are neighbours in C: of each
 * two instructions side by side it holds four, for which the rows of op(A) are permuted as they are
 * loaded. Chunks of 16 bytes are swizzled, so that a warp's loads meet no bank twice. */
#include "launch.cuh"
#include "ozaki_product.cuh"
#include "ozaki_scheme.h"
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

/* Where the chunk of a row is.  SHIFT says which rows a load of 8 meets: neighbours, or every
 * second pair of them. */
template <int SHIFT>
__device__ __forceinline__ int8_t *chunk_at(staged_rows &piece, int row, int chunk)
{
    return piece.bytes[row] + ((chunk ^ row >> SHIFT) % CHUNKS) * CHUNK;
}

constexpr int NEIGHBOURS = 1, PAIRS = 2;

template <int SHIFT>
__device__ __forceinline__ void send(staged_rows &to, const int8_t *from, int64_t depth)
{
    for (int chunk = threadIdx.x; chunk < TILE * CHUNKS; chunk += THREADS) {
        const int row = chunk / CHUNKS, place = chunk % CHUNKS;
        cp_async<CHUNK>(chunk_at<SHIFT>(to, row, place), from + row * depth + place * CHUNK);
    }
}

template <int SHIFT>
__device__ __forceinline__ int word_at(staged_rows &piece, int row, int word)
{
    return *reinterpret_cast<const int *>(chunk_at<SHIFT>(piece, row, word / 4) + word % 4 * 4);
}

/* Row of op(A) that is column `n` of instruction `s`: a lane's columns are 2 t and 2 t + 1. */
__device__ __forceinline__ int permuted(int s, int n)
{
    return s / 2 * 16 + n / 2 * 4 + s % 2 * 2 + n % 2;
}

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
                mma_m16n8k32(sum[v][u], a[v], b[u]);
    }
}

/* Four neighbours of one column of C: of two instructions, two each. */
__device__ __forceinline__ uint32_t packed(const modulus &m, const int left[2], const int right[2])
{
    return (uint32_t)(uint8_t)ozaki_reduced(&m, left[0]) |
           (uint32_t)(uint8_t)ozaki_reduced(&m, left[1]) << 8 |
           (uint32_t)(uint8_t)ozaki_reduced(&m, right[0]) << 16 |
           (uint32_t)(uint8_t)ozaki_reduced(&m, right[1]) << 24;
}

__global__ void __launch_bounds__(THREADS, 2)
    multiply_mma(const residues moduli, const ozaki_planes planes)
{
    auto *ring = reinterpret_cast<stage *>(dynamic_shared());
    const int64_t q = blockIdx.z, i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int i = warp % WARPS_I * WARP_I, j = warp / WARPS_I * WARP_J;
    const int8_t *a = planes.a + (q * planes.m + i0) * planes.k;
    const int8_t *b = planes.b + (q * planes.n + j0) * planes.k;
    const int steps = (int)(planes.k / STEPS);
    int sum[ACROSS_J][ACROSS_I][4] = {};

    for (int step = 0; step < STAGES - 1; step++) {
        if (step < steps) {
            send<PAIRS>(ring[step].a, a + step * STEPS, planes.k);
            send<NEIGHBOURS>(ring[step].b, b + step * STEPS, planes.k);
        }
        cp_async_commit();
    }
    for (int step = 0; step < steps; step++) {
        const int next = step + STAGES - 1;
        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* the stage is there, and all have left the one before */
        if (next < steps) {
            send<PAIRS>(ring[next % STAGES].a, a + next * STEPS, planes.k);
            send<NEIGHBOURS>(ring[next % STAGES].b, b + next * STEPS, planes.k);
        }
        cp_async_commit();
        multiply_stage(ring[step % STAGES], i, j, sum);
    }

    const modulus &m = moduli.moduli[q];
    for (int v = 0; v < ACROSS_J; v++)
        for (int u = 0; u < ACROSS_I; u += 2)
            for (int half = 0; half < 2; half++) {
                const int64_t column = j0 + j + 16 * v + lane / 4 + 8 * half;
                const int64_t row = i0 + i + 8 * u + lane % 4 * 4;
                *reinterpret_cast<uint32_t *>(planes.c + (q * planes.n + column) * planes.m + row) =
                    packed(m, &sum[v][u][2 * half], &sum[v][u + 1][2 * half]);
            }
}

cudaError_t ozaki_product_mma(const residues &moduli, const ozaki_planes &planes,
                              cudaStream_t stream)
{
    const dim3 grid((unsigned)(planes.m / TILE), (unsigned)(planes.n / TILE),
                    (unsigned)moduli.count);
    const cudaError_t status = require_capability(8);
    return status != cudaSuccess ? status
                                 : start_kernel(multiply_mma, grid, THREADS, STAGES * sizeof(stage),
                                                stream, moduli, planes);
}
