/* Whether the planes of C are the products of those of op(A) and op(B): Freivalds' method modulo
 * each modulus, which needs no tolerance.
 *
 * With a random sign x_i for each row, x C and (x op(A)) op(B) are compared column by column.  One
 * wrong residue of a column is found for certain, since +1 and -1 have inverses; of several ones
 * that do not follow from the signs, half or more are found, but for an even number of differences
 * of 128 modulo 256, which cancel.
 *
 * Sums over rows are below 2^27 for up to 2^20 rows whatever the signs are, and for far more with
 * random ones; those over steps are at most 2^27.
 *
 * x op(A) is computed once for all columns that op(A) is converted for.  Its product with op(B) is
 * taken from the sums where op(B) is converted (ozaki_convert.cuh), and x C is added where the
 * residues of C are read (ozaki_cuda.cu): neither is read once more. */
#include "launch.cuh"
#include "mix.h"
#include "ozaki_product.cuh"
#include "ozaki_scheme.h"

constexpr int THREADS = OZAKI_TILE;
constexpr int WIDE = 16;                 /* bytes a load */
constexpr int LANES = OZAKI_TILE / WIDE; /* threads that have a tile of a row */
constexpr int SLICES = THREADS / LANES;  /* of the rows, each for LANES threads */

struct alignas(WIDE) bytes_loaded {
    uint32_t words[WIDE / 4];
};

__device__ __forceinline__ bytes_loaded load_bytes(const int8_t *from)
{
    return *reinterpret_cast<const bytes_loaded *>(from);
}

__global__ void __launch_bounds__(THREADS) draw_signs(const ozaki_planes planes, uint64_t seed)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    planes.signs[i] = mix_number(seed, (uint64_t)i) >> 63 ? -1 : 1;
}

/* x op(A), of each modulus in turn; a block has a tile of steps. */
__global__ void __launch_bounds__(THREADS) project(const residues moduli, const ozaki_planes planes)
{
    __shared__ int shares[SLICES][OZAKI_TILE];
    const int64_t q = blockIdx.y, p = (int64_t)blockIdx.x * OZAKI_TILE;
    const int at = threadIdx.x % LANES * WIDE, slice = threadIdx.x / LANES;
    const int8_t *tile = planes.a + q * planes.m * planes.k + p + at;
    int sums[WIDE] = {}, sum = 0;
#pragma unroll 4
    for (int64_t i = slice; i < planes.m; i += SLICES) {
        const bytes_loaded loaded = load_bytes(tile + i * planes.k);
        const int sign = planes.signs[i];
#pragma unroll
        for (int e = 0; e < WIDE; e++)
            sums[e] += sign * (int8_t)(loaded.words[e / 4] >> e % 4 * 8);
    }
#pragma unroll
    for (int e = 0; e < WIDE; e++)
        shares[slice][at + e] = sums[e];
    __syncthreads();
    for (int s = 0; s < SLICES; s++)
        sum += shares[s][threadIdx.x];
    planes.projected[q * planes.k + p + threadIdx.x] =
        ozaki_reduced(ozaki_modulus(&moduli, q), sum);
}

__global__ void __launch_bounds__(THREADS) clear_sums(const ozaki_planes planes)
{
    planes.sums[blockIdx.y * planes.n + (int64_t)blockIdx.x * THREADS + threadIdx.x] = 0;
}

__global__ void __launch_bounds__(THREADS)
    count_wrong(const residues moduli, const ozaki_planes planes, unsigned long long *wrong)
{
    const int64_t q = blockIdx.y, j = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (ozaki_reduced(ozaki_modulus(&moduli, q), planes.sums[q * planes.n + j]) != 0)
        atomicAdd(wrong, 1ULL);
}

/* For each plane, a block for so many elements of a row or column of it. */
static dim3 blocks_for(const residues &moduli, int64_t elements, int each)
{
    return dim3((unsigned)(elements / each), (unsigned)ozaki_plane_count(&moduli));
}

cudaError_t ozaki_check_a(const residues &moduli, const ozaki_planes &planes, uint64_t seed,
                          cudaStream_t stream)
{
    const cudaError_t status =
        start_kernel(draw_signs, (unsigned)(planes.m / THREADS), THREADS, 0, stream, planes, seed);
    return status != cudaSuccess ? status
                                 : start_kernel(project, blocks_for(moduli, planes.k, OZAKI_TILE),
                                                THREADS, 0, stream, moduli, planes);
}

cudaError_t ozaki_check_clear(const residues &moduli, const ozaki_planes &planes,
                              cudaStream_t stream)
{
    return start_kernel(clear_sums, blocks_for(moduli, planes.n, THREADS), THREADS, 0, stream,
                        planes);
}

cudaError_t ozaki_check_c(const residues &moduli, const ozaki_planes &planes,
                          unsigned long long *wrong, cudaStream_t stream)
{
    return start_kernel(count_wrong, blocks_for(moduli, planes.n, THREADS), THREADS, 0, stream,
                        moduli, planes, wrong);
}
