/* Products in residues on the GPU (ozaki.h): for each part of C and block of k
 *
 *     measure      exponents of rows of op(A) and columns of op(B), then sums of squares
 *     convert      op(A) and op(B) to planes of residues
 *     multiply     the planes of C (ozaki_product.cuh)
 *     reconstruct  the integers behind the residues, which are scaled and added to C
 *
 * and between these the parts of the check.  Everything but `multiply` passes over its operands a
 * fixed number of times. */
#include "mix.h"
#include "ozaki_convert.cuh"
#include "ozaki_product.cuh"

constexpr int QUAD = 4;  /* residues a load, when they are put together */
constexpr int AHEAD = 7; /* such loads in flight */

/* op(A) or op(B), of any transposition. */
template <typename T>
struct strided {
    const T *memory;
    int64_t across, along; /* elements from one line to the next, and from one step of k */
};

/* An element of C in a block that is not finite, one step after the other. */
template <typename T>
__device__ T running_sum(const strided<T> &a, int64_t i, const strided<T> &b, int64_t j,
                         int64_t steps, T sum)
{
    for (int64_t p = 0; p < steps; p++)
        sum = multiply_add(a.memory[i * a.across + p * a.along],
                           b.memory[j * b.across + p * b.along], sum);
    return sum;
}

/* QUAD residues of a modulus: neighbours in a column of C, or two and two of complex numbers. */
template <bool COMPLEX>
__device__ __forceinline__ uint32_t load_residues(const int8_t *from, int64_t plane)
{
    if (!COMPLEX)
        return *reinterpret_cast<const uint32_t *>(from);
    return *reinterpret_cast<const uint16_t *>(from) |
           (uint32_t) * reinterpret_cast<const uint16_t *>(from + plane) << 16;
}

/* The residue of the e-th of QUAD neighbours, of what was loaded. */
template <bool COMPLEX>
__device__ __forceinline__ int8_t residue_at(const modulus &m, uint32_t packed, int e)
{
    if (!COMPLEX)
        return (int8_t)(packed >> 8 * e);
    const int number = e / 2 * 8;
    return ozaki_part_residue(&m, (int8_t)(packed >> number), (int8_t)(packed >> (16 + number)),
                              e % 2);
}

__device__ __forceinline__ int warp_sum(int x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(~0u, x, lanes);
    return x;
#else
    return __reduce_add_sync(~0u, x);
#endif
}

/* Sums of the residues in a block's part of a column of C, times their rows' signs. */
struct signed_sums {
    int of[THREADS / 32][2 * RESIDUES_MOST]; /* by each warp, for each plane */

    template <bool COMPLEX>
    __device__ __forceinline__ void add(int modulus, uint32_t packed, uint32_t signs)
    {
        constexpr uint32_t HALF = COMPLEX ? 0xffff : 0xffffffff;
        int *const sums = of[threadIdx.x / 32] + WIDTH<COMPLEX> * modulus;
        const int sum = warp_sum(ozaki_dot(packed, (int32_t)(signs & HALF), 0));
        const int other = COMPLEX ? warp_sum(ozaki_dot(packed, (int32_t)(signs & ~HALF), 0)) : 0;
        if (threadIdx.x % 32 > 0)
            return;
        sums[0] = sum;
        if (COMPLEX)
            sums[1] = other;
    }

    /* Add those of all warps, each for its plane, to a column's. */
    __device__ __forceinline__ void add_to(int *column, int64_t stride, int planes) const
    {
        int sum = 0;
        if ((int)threadIdx.x >= planes)
            return;
        for (int warp = 0; warp < THREADS / 32; warp++)
            sum += of[warp][threadIdx.x];
        atomicAdd(&column[threadIdx.x * stride], sum);
    }
};

/* The signs of QUAD neighbours in a column, as load_residues has their residues. */
template <bool COMPLEX>
__device__ __forceinline__ uint32_t load_signs(const int8_t *from)
{
    if (!COMPLEX)
        return *reinterpret_cast<const uint32_t *>(from);
    return *reinterpret_cast<const uint16_t *>(from) * 0x10001u;
}

/* The integer behind the residues of QUAD neighbours in a column of C; where the column is checked
 * all threads of a warp call it, some beyond the column. */
template <int PARTS, bool COMPLEX>
__device__ __forceinline__ void values_at(const residues &moduli, const ozaki_planes &planes,
                                          int64_t i, int64_t j, bool inside, signed_sums *checked,
                                          double values[QUAD])
{
    const int64_t plane = planes.n * planes.m, row = i / WIDTH<COMPLEX>;
    const int8_t *from = planes.c + j * planes.m + row;
    const uint32_t signs = checked && inside ? load_signs<COMPLEX>(planes.signs + row) : 0;
    double sums[QUAD][RESIDUES_PARTS] = {};
    for (int first = 0; first < moduli.count; first += AHEAD) {
        uint32_t packed[AHEAD];
#pragma unroll
        for (int q = 0; q < AHEAD; q++, from += WIDTH<COMPLEX> * plane)
            if (first + q < moduli.count)
                packed[q] = inside ? load_residues<COMPLEX>(from, plane) : 0;
#pragma unroll
        for (int q = 0; q < AHEAD; q++)
            if (first + q < moduli.count) {
                if (checked)
                    checked->add<COMPLEX>(first + q, packed[q], signs);
#pragma unroll
                for (int e = 0; e < QUAD; e++)
                    ozaki_accumulate(&moduli, PARTS, first + q,
                                     residue_at<COMPLEX>(moduli.moduli[first + q], packed[q], e),
                                     sums[e]);
            }
    }
#pragma unroll
    for (int e = 0; e < QUAD; e++)
        values[e] = ozaki_value(&moduli, PARTS, sums[e]);
}

/* A block has THREADS QUAD elements of a column of C: a thread QUAD neighbours, as residues, and
 * every THREADS-th element, as a sum. */
template <typename T, int PARTS, bool COMPLEX>
__global__ void __launch_bounds__(THREADS, 4)
    reconstruct(const residues moduli, const product<T> g, strided<T> a, strided<T> b,
                ozaki_planes planes, bool check)
{
    __shared__ double values[THREADS * QUAD];
    __shared__ signed_sums checked;
    const int64_t i0 = (int64_t)blockIdx.x * THREADS * QUAD, j = blockIdx.y;
    const int first = threadIdx.x * QUAD;
    T before[QUAD];
#pragma unroll
    for (int s = 0; s < QUAD; s++) {
        const int64_t i = i0 + threadIdx.x + s * THREADS;
        before[s] = g.beta == T(0) || i >= g.m ? T(0) : g.c[i + j * g.ldc];
    }
    values_at<PARTS, COMPLEX>(moduli, planes, i0 + first, j, i0 + first < g.m,
                              check ? &checked : nullptr, values + first);
    __syncthreads();
    if (check)
        checked.add_to(planes.sums + j, planes.n, WIDTH<COMPLEX> * moduli.count);
#pragma unroll
    for (int s = 0; s < QUAD; s++) {
        const int e = threadIdx.x + s * THREADS;
        const int64_t i = i0 + e, line = i / WIDTH<COMPLEX>;
        T *c = &g.c[i + j * g.ldc];
        if (i >= g.m)
            return;
        if (planes.scales_a.exponents[line] == OZAKI_NOT_FINITE ||
            planes.scales_b.exponents[j] == OZAKI_NOT_FINITE)
            *c = running_sum(a, i, b, j, g.k, before[s]);
        else
            *c = (T)ozaki_added((double)before[s], values[e], planes.scales_a.shifts[line],
                                planes.scales_b.shifts[j]);
    }
}

static cudaError_t multiply_planes(const ozaki &o, const ozaki_planes &planes, cudaStream_t stream)
{
    ozaki_kernel kernel = o.kernel;
    if (kernel == OZAKI_FASTEST)
        kernel = require_capability(9) == cudaSuccess   ? OZAKI_WGMMA
                 : require_capability(8) == cudaSuccess ? OZAKI_MMA
                                                        : OZAKI_DP4A;
    return kernel == OZAKI_DP4A  ? ozaki_product_dp4a(*o.residues, planes, stream)
           : kernel == OZAKI_MMA ? ozaki_product_mma(*o.residues, planes, stream)
                                 : ozaki_product_wgmma(*o.residues, planes, o.leaves_room, stream);
}

/* The part of the product from row i and column j on, in the block from step p on. */
template <typename T, bool TRANS_A, bool TRANS_B>
static product<T> part_of(product<T> g, int64_t i, int64_t j, int64_t p, int64_t rows, int64_t cols)
{
    g.a += TRANS_A ? p + i * g.lda : i + p * g.lda;
    g.b += TRANS_B ? j + p * g.ldb : p + j * g.ldb;
    g.c += i + j * g.ldc;
    g.m = min(rows, g.m - i);
    g.n = min(cols, g.n - j);
    g.k = min((int64_t)OZAKI_BLOCK, g.k - p);
    g.beta = p == 0 ? g.beta : T(1);
    return g;
}

template <bool COMPLEX, typename T>
static cudaError_t reconstruct_part(const residues &moduli, const product<T> &part,
                                    const strided<T> &a, const strided<T> &b,
                                    const ozaki_planes &planes, bool check, cudaStream_t stream)
{
    static_assert(RESIDUES_PARTS == 4, "kernels for 2 to 4 parts");
    const auto kernel = moduli.parts == 2   ? reconstruct<T, 2, COMPLEX>
                        : moduli.parts == 3 ? reconstruct<T, 3, COMPLEX>
                                            : reconstruct<T, 4, COMPLEX>;
    const dim3 grid(blocks_of(part.m, THREADS * QUAD), (unsigned)part.n);
    return start_kernel(kernel, grid, THREADS, 0, stream, moduli, part, a, b, planes, check);
}

template <typename T, bool TRANS_A, bool TRANS_B, bool COMPLEX>
static cudaError_t multiply_part(const product<T> &part, const ozaki &o, bool convert_a,
                                 uint64_t seed, const ozaki_planes &planes, cudaStream_t stream)
{
    const strided<T> a = {part.a, TRANS_A ? part.lda : 1, TRANS_A ? 1 : part.lda};
    const strided<T> b = {part.b, TRANS_B ? 1 : part.ldb, TRANS_B ? part.ldb : 1};
    cudaError_t status = cudaSuccess;
    if (convert_a)
        status = convert_operand<COMPLEX>(*o.residues, lines_of_a<TRANS_A, COMPLEX>(part),
                                          planes.scales_a, planes.a, planes.m, planes.k, stream);
    if (status == cudaSuccess && convert_a && o.wrong)
        status = ozaki_check_a(*o.residues, planes, seed, stream);
    if (status == cudaSuccess)
        status = convert_operand<COMPLEX>(*o.residues, operand_b<TRANS_B>(part), planes.scales_b,
                                          planes.b, planes.n, planes.k, stream);
    if (status == cudaSuccess && o.wrong)
        status = ozaki_check_b(*o.residues, planes, stream);
    if (status == cudaSuccess)
        status = multiply_planes(o, planes, stream);
    if (status == cudaSuccess)
        status = reconstruct_part<COMPLEX>(*o.residues, part, a, b, planes, o.wrong, stream);
    if (status == cudaSuccess && o.wrong)
        status = ozaki_check_c(*o.residues, planes, o.wrong, stream);
    return status;
}

template <typename T, bool TRANS_A, bool TRANS_B, bool COMPLEX>
static cudaError_t multiply(const struct gemm *gemm, const ozaki &o, cudaStream_t stream)
{
    product<T> g = product_of<T>(gemm);
    const auto [rows, cols] = ozaki_part(o.residues->count, COMPLEX, o.bytes, g.m, o.cols, g.k);
    const bool has_a = o.same_a && rows >= g.m && g.k <= OZAKI_BLOCK;
    uint64_t parts = 0;
    for (int64_t p = 0; p < g.k; p += OZAKI_BLOCK)
        for (int64_t i = 0; i < g.m; i += rows)
            for (int64_t j = 0; j < g.n; j += cols) {
                const product<T> part = part_of<T, TRANS_A, TRANS_B>(g, i, j, p, rows, cols);
                const cudaError_t status = multiply_part<T, TRANS_A, TRANS_B, COMPLEX>(
                    part, o, j == 0 && !has_a, mix_number(o.seed, parts++),
                    ozaki_planes_at(&o, part.m, part.n, part.k), stream);
                if (status != cudaSuccess)
                    return status;
            }
    return cudaSuccess;
}

template <typename T, bool COMPLEX>
static cudaError_t multiply_type(const struct gemm *gemm, const ozaki &o, cudaStream_t stream)
{
    if (gemm->trans_a)
        return gemm->trans_b ? multiply<T, true, true, COMPLEX>(gemm, o, stream)
                             : multiply<T, true, false, COMPLEX>(gemm, o, stream);
    return gemm->trans_b ? multiply<T, false, true, COMPLEX>(gemm, o, stream)
                         : multiply<T, false, false, COMPLEX>(gemm, o, stream);
}

template <typename T>
static cudaError_t multiply_numbers(const struct gemm *gemm, const ozaki &o, cudaStream_t stream)
{
    if (!o.residues->complex)
        return multiply_type<T, false>(gemm, o, stream);
    if (gemm->m % 2 != 0 || gemm->k % 2 != 0)
        return cudaErrorInvalidValue;
    return multiply_type<T, true>(gemm, o, stream);
}

cudaError_t ozaki_cuda(const struct gemm *gemm, const struct ozaki *ozaki, cudaStream_t stream)
{
    if (gemm->k == 0 && gemm->beta == 0) {
        combine zeros = {};
        zeros.type = gemm->type;
        zeros.rows = gemm->n;
        zeros.cols = gemm->m;
        zeros.acc = gemm->c;
        zeros.ld_acc = gemm->ldc;
        return combine_cuda(&zeros, stream);
    }
    return gemm->type == SCALAR_FLOAT ? multiply_numbers<float>(gemm, *ozaki, stream)
                                      : multiply_numbers<double>(gemm, *ozaki, stream);
}
