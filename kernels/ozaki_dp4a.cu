/* Products of planes by dp4a, four multiply-adds of bytes an instruction: for GPUs without tensor
 * cores for bytes, and to compare with.
 *
 * A block computes a tile of one plane, a thread 4 x 4 elements of it. */
#include "launch.cuh"
#include "ozaki_product.cuh"
#include "ozaki_scheme.h"
#include "ptx.cuh"

constexpr int ACROSS = 16, EACH = 4, TILE = ACROSS * EACH, THREADS = ACROSS * ACROSS;
constexpr int WORDS = 16; /* of four steps each, that are in shared memory at a time */

/* A piece of a plane: words of each row, whose stride spreads a warp's loads over the banks. */
struct staged_words {
    int at[TILE][WORDS + 1];
};

__device__ __forceinline__ void load(staged_words &to, const int8_t *plane, int64_t row,
                                     int64_t depth, int64_t step)
{
    for (int word = threadIdx.x; word < TILE * WORDS; word += THREADS)
        to.at[word / WORDS][word % WORDS] = *reinterpret_cast<const int *>(
            plane + (row + word / WORDS) * depth + step + word % WORDS * 4);
}

__global__ void __launch_bounds__(THREADS) multiply_dp4a(const residues moduli, ozaki_planes planes)
{
    __shared__ staged_words a, b;
    const int64_t q = blockIdx.z, i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    const int x = threadIdx.x % ACROSS * EACH, y = threadIdx.x / ACROSS * EACH;
    const int8_t *plane_a = planes.a + q * planes.m * planes.k;
    const int8_t *plane_b = planes.b + q * planes.n * planes.k;
    int sum[EACH][EACH] = {};
    for (int64_t step = 0; step < planes.k; step += WORDS * 4) {
        load(a, plane_a, i0, planes.k, step);
        load(b, plane_b, j0, planes.k, step);
        __syncthreads();
        for (int word = 0; word < WORDS; word++)
            for (int v = 0; v < EACH; v++)
                for (int u = 0; u < EACH; u++)
                    sum[v][u] = dp4a(a.at[x + u][word], b.at[y + v][word], sum[v][u]);
        __syncthreads();
    }
    for (int v = 0; v < EACH; v++) {
        uint32_t packed = 0;
        for (int u = 0; u < EACH; u++)
            packed |= (uint32_t)(uint8_t)ozaki_reduced(&moduli.moduli[q], sum[v][u]) << 8 * u;
        *reinterpret_cast<uint32_t *>(planes.c + (q * planes.n + j0 + y + v) * planes.m + i0 + x) =
            packed;
    }
}

cudaError_t ozaki_product_dp4a(const residues &moduli, const ozaki_planes &planes,
                               cudaStream_t stream)
{
    const dim3 grid((unsigned)(planes.m / TILE), (unsigned)(planes.n / TILE),
                    (unsigned)moduli.count);
    return start_kernel(multiply_dp4a, grid, THREADS, 0, stream, moduli, planes);
}
