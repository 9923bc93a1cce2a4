/* Whether the planes of C are the products of those of op(A) and op(B): Freivalds' method modulo
 * each modulus, which needs no tolerance.
 *
 * With a random sign x_j for each column, C x and op(A) (op(B) x) are compared row by row.  One
 * wrong residue of a row is found for certain, since +1 and -1 have inverses; of several ones that
 * do not follow from the signs, half or more are found, but for an even number of differences of
 * 128 modulo 256, which cancel.  Every plane is read once. */
#include "launch.cuh"
#include "mix.h"
#include "ozaki_product.cuh"
#include "ozaki_scheme.h"

constexpr int THREADS = OZAKI_TILE;
constexpr int WIDE = 16;                        /* bytes a load */
constexpr int LANES = OZAKI_TILE / WIDE;        /* threads that have a tile of a vector */
constexpr int SLICES = THREADS / LANES;         /* of the vectors, each for LANES threads */
constexpr int SIGNS = 64;                       /* bits of a random number */
constexpr int ROWS = 4, SHARE = THREADS / ROWS; /* of op(A) a block, threads of a row */

struct alignas(WIDE) bytes_loaded {
    uint32_t words[WIDE / 4];
};

__device__ __forceinline__ bytes_loaded load_bytes(const int8_t *from)
{
    return *reinterpret_cast<const bytes_loaded *>(from);
}

/* A block's threads have an element each of a tile of the sum of `count` vectors times signs, each
 * `stride` bytes behind the one before. */
__device__ int signed_sum(const int8_t *tile, int64_t count, int64_t stride, uint64_t seed)
{
    __shared__ int shares[SLICES][OZAKI_TILE];
    const int at = threadIdx.x % LANES * WIDE, slice = threadIdx.x / LANES;
    int sums[WIDE] = {}, sum = 0;
    tile += slice * stride + at;
    for (int64_t j = 0; j < count; j += SIGNS) {
        const uint64_t signs = mix_number(seed, (uint64_t)j) >> slice;
#pragma unroll
        for (int s = 0; s < SIGNS; s += SLICES, tile += SLICES * stride) {
            const bytes_loaded loaded = load_bytes(tile);
            const int sign = signs >> s & 1 ? -1 : 1;
#pragma unroll
            for (int e = 0; e < WIDE; e++)
                sums[e] += sign * (int8_t)(loaded.words[e / 4] >> e % 4 * 8);
        }
    }
#pragma unroll
    for (int e = 0; e < WIDE; e++)
        shares[slice][at + e] = sums[e];
    __syncthreads();
    for (int s = 0; s < SLICES; s++)
        sum += shares[s][threadIdx.x];
    return sum;
}

/* y = op(B) x, of each modulus in turn; a block has a tile of steps. */
__global__ void __launch_bounds__(THREADS)
    project_b(const residues moduli, const ozaki_planes planes, uint64_t seed)
{
    const int64_t q = blockIdx.y, p = (int64_t)blockIdx.x * OZAKI_TILE;
    const int sum = signed_sum(planes.b + q * planes.n * planes.k + p, planes.n, planes.k, seed);
    planes.sums_b[q * planes.k + p + threadIdx.x] = ozaki_reduced(ozaki_modulus(&moduli, q), sum);
}

/* z = op(A) y; a block has some rows. */
__global__ void __launch_bounds__(THREADS)
    project_a(const residues moduli, const ozaki_planes planes)
{
    __shared__ int shares[ROWS][SHARE];
    const int row = threadIdx.x / SHARE, at = threadIdx.x % SHARE;
    const int64_t q = blockIdx.y, i = (int64_t)blockIdx.x * ROWS;
    const int8_t *a = planes.a + (q * planes.m + i + row) * planes.k,
                 *y = planes.sums_b + q * planes.k;
    int sum = 0;
#pragma unroll 4
    for (int64_t p = at * WIDE; p < planes.k; p += SHARE * WIDE) {
        const bytes_loaded from = load_bytes(a + p), times = load_bytes(y + p);
#pragma unroll
        for (int w = 0; w < WIDE / 4; w++)
            sum = ozaki_dot(from.words[w], (int32_t)times.words[w], sum);
    }
    shares[row][at] = sum;
    __syncthreads();
    if (at > 0)
        return;
    for (int t = 1; t < SHARE; t++)
        sum += shares[row][t];
    planes.sums_a[q * planes.m + i + row] = ozaki_reduced(ozaki_modulus(&moduli, q), sum);
}

/* C x beside z; a block has a tile of rows. */
__global__ void __launch_bounds__(THREADS)
    compare_c(const residues moduli, const ozaki_planes planes, uint64_t seed,
              unsigned long long *wrong)
{
    const int64_t q = blockIdx.y, i = (int64_t)blockIdx.x * OZAKI_TILE;
    const int sum = signed_sum(planes.c + q * planes.n * planes.m + i, planes.n, planes.m, seed);
    if (ozaki_reduced(ozaki_modulus(&moduli, q), sum) !=
        planes.sums_a[q * planes.m + i + threadIdx.x])
        atomicAdd(wrong, 1ULL);
}

cudaError_t ozaki_check(const residues &moduli, const ozaki_planes &planes, uint64_t seed,
                        unsigned long long *wrong, cudaStream_t stream)
{
    const unsigned count = (unsigned)ozaki_plane_count(&moduli);
    const dim3 steps((unsigned)(planes.k / OZAKI_TILE), count);
    const dim3 rows((unsigned)(planes.m / OZAKI_TILE), count);
    cudaError_t status = start_kernel(project_b, steps, THREADS, 0, stream, moduli, planes, seed);
    if (status == cudaSuccess)
        status = start_kernel(project_a, dim3((unsigned)(planes.m / ROWS), count), THREADS, 0,
                              stream, moduli, planes);
    if (status == cudaSuccess)
        status = start_kernel(compare_c, rows, THREADS, 0, stream, moduli, planes, seed, wrong);
    return status;
}
