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

constexpr int THREADS = 128, PACK = 4;

__device__ __forceinline__ int sign_of(uint64_t seed, int64_t j)
{
    return mix_number(seed, (uint64_t)j) >> 63 ? -1 : 1;
}

/* Add `count` vectors times signs, each `stride` bytes behind the one before: four elements. */
__device__ __forceinline__ void add_signed(const int8_t *at, int64_t count, int64_t stride,
                                           uint64_t seed, int sums[PACK])
{
    for (int64_t j = 0; j < count; j++) {
        const uint32_t word = *reinterpret_cast<const uint32_t *>(at + j * stride);
        const int sign = sign_of(seed, j);
#pragma unroll
        for (int e = 0; e < PACK; e++)
            sums[e] += sign * (int8_t)(word >> 8 * e);
    }
}

/* y = op(B) x, of each modulus in turn; a thread has PACK steps. */
__global__ void __launch_bounds__(THREADS)
    project_b(const residues moduli, const ozaki_planes planes, uint64_t seed)
{
    const int64_t q = blockIdx.y, p = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * PACK;
    int sums[PACK] = {};
    if (p >= planes.k)
        return;
    add_signed(planes.b + q * planes.n * planes.k + p, planes.n, planes.k, seed, sums);
    for (int e = 0; e < PACK; e++)
        planes.sums_b[q * planes.k + p + e] = ozaki_reduced(ozaki_modulus(&moduli, q), sums[e]);
}

/* z = op(A) y; a block has one row. */
__global__ void __launch_bounds__(THREADS)
    project_a(const residues moduli, const ozaki_planes planes)
{
    __shared__ int shares[THREADS];
    const int64_t q = blockIdx.y, i = blockIdx.x;
    const int8_t *row = planes.a + (q * planes.m + i) * planes.k, *y = planes.sums_b + q * planes.k;
    int sum = 0;
    for (int64_t p = threadIdx.x * PACK; p < planes.k; p += THREADS * PACK)
        sum = ozaki_dot(*reinterpret_cast<const uint32_t *>(row + p),
                        *reinterpret_cast<const int32_t *>(y + p), sum);
    shares[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int t = 1; t < THREADS; t++)
        sum += shares[t];
    planes.sums_a[q * planes.m + i] = ozaki_reduced(ozaki_modulus(&moduli, q), sum);
}

/* C x beside z; a thread has PACK rows. */
__global__ void __launch_bounds__(THREADS)
    compare_c(const residues moduli, const ozaki_planes planes, uint64_t seed,
              unsigned long long *wrong)
{
    const int64_t q = blockIdx.y, i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * PACK;
    int sums[PACK] = {};
    if (i >= planes.m)
        return;
    add_signed(planes.c + q * planes.n * planes.m + i, planes.n, planes.m, seed, sums);
    unsigned long long found = 0;
    for (int e = 0; e < PACK; e++)
        found += ozaki_reduced(ozaki_modulus(&moduli, q), sums[e]) !=
                 planes.sums_a[q * planes.m + i + e];
    if (found > 0)
        atomicAdd(wrong, found);
}

cudaError_t ozaki_check(const residues &moduli, const ozaki_planes &planes, uint64_t seed,
                        unsigned long long *wrong, cudaStream_t stream)
{
    const unsigned each = THREADS * PACK, count = (unsigned)ozaki_plane_count(&moduli);
    const dim3 steps((unsigned)((planes.k + each - 1) / each), count);
    const dim3 rows((unsigned)((planes.m + each - 1) / each), count);
    cudaError_t status = start_kernel(project_b, steps, THREADS, 0, stream, moduli, planes, seed);
    if (status == cudaSuccess)
        status = start_kernel(project_a, dim3((unsigned)planes.m, count), THREADS, 0, stream,
                              moduli, planes);
    if (status == cudaSuccess)
        status = start_kernel(compare_c, rows, THREADS, 0, stream, moduli, planes, seed, wrong);
    return status;
}
