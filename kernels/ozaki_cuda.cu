/* Products in residues on the GPU (ozaki.h): for each part of C and block of k
 *
 *     measure      exponents of rows of op(A) and columns of op(B), then sums of squares
 *     convert      op(A) and op(B) to planes of residues
 *     multiply     the planes of C (ozaki_product.cuh)
 *     reconstruct  the integers behind the residues, which are scaled and added to C
 *
 * and between these the parts of the check.  Everything but `multiply` passes over its operands a
 * fixed number of times. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_ozaki = {
    .name = "ozaki",
    .on_gpu = HAS_CUDA,
    .on_cpu = true, /* where it is for checking */
    .same_bits = true,
    .shapes = 1,
    .host_bytes = CUDA_HOST_BYTES,
    .of_best = 0.0025, /* on the CPU */
};
#else
#include "mix.h"
#include "ozaki_convert.cuh"
#include "ozaki_product.cuh"

constexpr int QUAD = 4;  /* residues a load, when they are put together */
constexpr int AHEAD = 7; /* such loads in flight */
constexpr int COLS = 4;  /* columns of C, one after the other */

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
#pragma unroll 1
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

/* A signed byte of a word, as the last digits of 2^52: conversions are slow. */
__device__ __forceinline__ double byte_at(uint32_t packed, int number)
{
#ifdef __CUDA_ARCH__
    const unsigned digits = __byte_perm(packed ^ 0x80808080, 0, 0x4440 + number);
    return __hiloint2double(0x43300000, (int)digits) - (0x1p52 + 128);
#else
    return (int8_t)(packed >> 8 * number);
#endif
}

/* The residue of the e-th of QUAD neighbours, of what was loaded. */
template <bool COMPLEX>
__device__ __forceinline__ double residue_at(const modulus &m, uint32_t packed, int e)
{
    if (!COMPLEX)
        return byte_at(packed, e);
    const int number = e / 2 * 8;
    return byte_at((uint8_t)ozaki_part_residue(&m, (int8_t)(packed >> number),
                                               (int8_t)(packed >> (16 + number)), e % 2),
                   0);
}

/* The signs of QUAD neighbours in a column, as load_residues has their residues. */
template <bool COMPLEX>
__device__ __forceinline__ uint32_t load_signs(const int8_t *from)
{
    if (!COMPLEX)
        return *reinterpret_cast<const uint32_t *>(from);
    return *reinterpret_cast<const uint16_t *>(from) * 0x10001u;
}

/* The integers behind the residues of QUAD neighbours in a column of C, from sums of weights times
 * residues.  All threads of a warp call it. */
template <int PARTS, bool COMPLEX>
struct collected {
    const residues &moduli;
    const int8_t *from; /* residues of the next modulus */
    int64_t plane;
    uint32_t signs;             /* of the rows, or 0: nothing is checked */
    kept_sums<COMPLEX> checked; /* of the residues times signs */
    double sums[QUAD][RESIDUES_PARTS];

    __device__ __forceinline__ int signed_sum(uint32_t packed, int side)
    {
        const uint32_t bytes = !COMPLEX ? ~0u : 0xffffu << 16 * side;
        return ozaki_dot(packed, (int32_t)(signs & bytes), 0);
    }

    /* Take in the residues of COUNT moduli. */
    template <int COUNT>
    __device__ __forceinline__ void add(int first)
    {
        uint32_t packed[COUNT];
#pragma unroll
        for (int q = 0; q < COUNT; q++, from += WIDTH<COMPLEX> * plane)
            packed[q] = load_residues<COMPLEX>(from, plane);
        if (signs)
#pragma unroll
            for (int q = 0; q < COUNT; q++)
#pragma unroll
                for (int side = 0; side < WIDTH<COMPLEX>; side++)
                    checked.add(first + q, side, signed_sum(packed[q], side));
#pragma unroll
        for (int q = 0; q < COUNT; q++)
#pragma unroll
            for (int e = 0; e < QUAD; e++)
                ozaki_accumulate(&moduli, PARTS, first + q,
                                 residue_at<COMPLEX>(moduli.moduli[first + q], packed[q], e),
                                 sums[e]);
    }

    /* The first ones with constant indices, so that weights are operands of instructions. */
    __device__ __forceinline__ void add_all()
    {
        int first = 0;
#pragma unroll
        for (; first < RESIDUES_MOST / AHEAD * AHEAD; first += AHEAD) {
            if (first + AHEAD > moduli.count)
                break;
            add<AHEAD>(first);
        }
#pragma unroll 1
        for (; first < moduli.count; first++)
            add<1>(first);
    }
};

/* Add to an element of C what its block gives: a value, or the running sum where the row or the
 * column is not finite. */
template <bool COMPLEX, typename T>
__device__ __forceinline__ void add_to_one(const product<T> &g, const strided<T> &a,
                                           const strided<T> &b, const ozaki_planes &planes,
                                           int64_t i, int64_t j, double value)
{
    const ozaki_scales &rows = planes.scales_a, &cols = planes.scales_b;
    const int64_t line = i / WIDTH<COMPLEX>;
    T *c = &g.c[i + j * g.ldc];
    const T before = g.beta == T(0) ? T(0) : *c;
    if (rows.exponents[line] == OZAKI_NOT_FINITE || cols.exponents[j] == OZAKI_NOT_FINITE)
        *c = running_sum(a, i, b, j, g.k, before);
    else
        *c = (T)ozaki_added((double)before, value, rows.shifts[line], cols.shifts[j]);
}

/* A warp has ROWS elements of each of COLS columns of C: a lane QUAD neighbours, as residues, and
 * every 32nd element, as a sum.  Of planes these rows are whole, or beyond. */
template <typename T, int PARTS, bool COMPLEX>
__global__ void __launch_bounds__(THREADS, 4)
    reconstruct(const residues moduli, const product<T> g, strided<T> a, strided<T> b,
                ozaki_planes planes, bool check)
{
    constexpr int WARPS = THREADS / 32, ROWS = 32 * QUAD;
    static_assert(OZAKI_TILE % ROWS == 0, "planes end where a warp's part ends");
    __shared__ double values[WARPS][ROWS];
    __shared__ int checked[2][WARPS][2 * RESIDUES_MOST];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t i0 = ((int64_t)blockIdx.x * WARPS + warp) * ROWS, j0 = (int64_t)blockIdx.y * COLS;
    const int64_t plane = planes.n * planes.m, line = (i0 + lane * QUAD) / WIDTH<COMPLEX>;
    const int rows = (int)min(g.m - i0 - lane, (int64_t)ROWS); /* from this lane's first one on */
    const bool inside = line < planes.m;
    const uint32_t signs = check && inside ? load_signs<COMPLEX>(planes.signs + line) : 0;
    int shifts[QUAD];
    bool finite = true;
#pragma unroll
    for (int s = 0; s < QUAD; s++) {
        const int64_t line = (i0 + lane + 32 * s) / WIDTH<COMPLEX>;
        shifts[s] = 32 * s < rows ? planes.scales_a.shifts[line] : 0;
        finite = finite && (32 * s >= rows || planes.scales_a.exponents[line] != OZAKI_NOT_FINITE);
    }
#pragma unroll 1
    for (int col = 0; col < COLS; col++) {
        const int64_t j = j0 + col;
        if (j >= g.n)
            break;
        T *const c = g.c + i0 + lane + j * g.ldc;
        T before[QUAD];
#pragma unroll
        for (int s = 0; s < QUAD; s++)
            before[s] = g.beta == T(0) || 32 * s >= rows ? T(0) : c[32 * s];
        collected<PARTS, COMPLEX> all = {moduli, planes.c + j * planes.m + line, plane, signs, {},
                                         {}};
        if (inside)
            all.add_all();
        __syncwarp();
#pragma unroll
        for (int e = 0; e < QUAD; e++)
            values[warp][lane * QUAD + e] = ozaki_value(&moduli, PARTS, all.sums[e]);
        if (check) {
            if (lane < moduli.count)
#pragma unroll
                for (int p = 0; p < WIDTH<COMPLEX>; p++)
                    checked[col % 2][warp][WIDTH<COMPLEX> * lane + p] = all.checked.of[p];
            __syncthreads();
            if ((int)threadIdx.x < WIDTH<COMPLEX> * moduli.count) {
                int sum = 0;
                for (int w = 0; w < WARPS; w++)
                    sum += checked[col % 2][w][threadIdx.x];
                atomicAdd(&planes.sums[threadIdx.x * planes.n + j], sum);
            }
        }
        __syncwarp();
        if (finite && planes.scales_b.exponents[j] != OZAKI_NOT_FINITE) {
            const int shift = planes.scales_b.shifts[j];
#pragma unroll
            for (int s = 0; s < QUAD; s++)
                if (32 * s < rows)
                    c[32 * s] = (T)ozaki_added((double)before[s], values[warp][lane + 32 * s],
                                               shifts[s], shift);
        } else {
#pragma unroll 1
            for (int e = 0; e < min(rows, ROWS); e += 32)
                add_to_one<COMPLEX>(g, a, b, planes, i0 + lane + e, j, values[warp][lane + e]);
        }
    }
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
    const dim3 grid(blocks_of(part.m, THREADS * QUAD), blocks_of(part.n, COLS));
    return start_kernel(kernel, grid, THREADS, 0, stream, moduli, part, a, b, planes, check);
}

template <typename T, bool TRANS_A, bool TRANS_B, bool COMPLEX>
static cudaError_t multiply_part(const product<T> &part, const ozaki &o, bool convert_a,
                                 uint64_t seed, const ozaki_planes &planes, cudaStream_t stream)
{
    const strided<T> a = {part.a, TRANS_A ? part.lda : 1, TRANS_A ? 1 : part.lda};
    const strided<T> b = {part.b, TRANS_B ? 1 : part.ldb, TRANS_B ? part.ldb : 1};
    const converted to_a = {planes.a, planes.m, planes.k, nullptr, nullptr};
    const converted to_b = {planes.b, planes.n, planes.k, o.wrong ? planes.projected : nullptr,
                            planes.sums};
    cudaError_t status = cudaSuccess;
    if (convert_a)
        status = convert_operand<COMPLEX>(*o.residues, lines_of_a<TRANS_A, COMPLEX>(part),
                                          planes.scales_a, to_a, stream);
    if (status == cudaSuccess && convert_a && o.wrong)
        status = ozaki_check_a(*o.residues, planes, seed, stream);
    if (status == cudaSuccess && o.wrong)
        status = ozaki_check_clear(*o.residues, planes, stream);
    if (status == cudaSuccess)
        status = convert_operand<COMPLEX>(*o.residues, operand_b<TRANS_B>(part), planes.scales_b,
                                          to_b, stream);
    if (status == cudaSuccess)
        status = o.kernel->code->to_residues(o.residues, &planes, o.leaves_room, stream);
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
    return for_real(gemm->type,
                    [&](auto x) { return multiply_numbers<decltype(x)>(gemm, *ozaki, stream); });
}
#endif
