/* Products in residues on the GPU (ozaki.h): for each part of C and block of k
 *
 *     measure      exponents of rows of op(A) and columns of op(B), then sums of squares
 *     convert      op(A) and op(B) to planes of residues
 *     multiply     the planes of C (ozaki_product.cuh), and check them
 *     reconstruct  the integers behind the residues, which are scaled and added to C
 *
 * Everything but `multiply` passes over its operands a fixed number of times. */
#include "gemm_common.cuh"
#include "mix.h"
#include "ozaki_part.h"
#include "ozaki_product.cuh"
#include "ozaki_scheme.h"

constexpr int THREADS = 256;
constexpr int MEASURED_STEPS = 256;                       /* of k, a thread */
constexpr int TILE_ROWS = 32, TILE_STEPS = 128, PACK = 8; /* of a conversion; bytes a store */
constexpr int LINE_THREADS = 512, HELD = OZAKI_BLOCK / LINE_THREADS; /* of a line; numbers each */
constexpr int QUAD = 4;  /* residues a load, when they are put together */
constexpr int AHEAD = 7; /* such loads in flight */

/* An operand in whose memory neighbours across lines, rows of op(A) or columns of op(B), are
 * neighbours: a thread measures some steps of line x. */
template <typename T>
using lines_abreast = operand<T, false>;

__global__ void __launch_bounds__(THREADS) clear_scales(ozaki_scales scales, int64_t count)
{
    const int64_t x = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (x >= count)
        return;
    scales.exponents[x] = OZAKI_ZERO;
    scales.squares[x] = 0;
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    measure_exponents(lines_abreast<T> from, ozaki_scales scales)
{
    const int64_t x = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t first = (int64_t)blockIdx.y * MEASURED_STEPS;
    int exponent = OZAKI_ZERO;
    if (x >= from.width)
        return;
    for (int64_t p = first; p < min(first + MEASURED_STEPS, from.depth); p++)
        exponent = max(exponent, ozaki_exponent((double)from.at(x, p)));
    atomicMax(&scales.exponents[x], exponent);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    measure_squares(lines_abreast<T> from, ozaki_scales scales)
{
    const int64_t x = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t first = (int64_t)blockIdx.y * MEASURED_STEPS;
    if (x >= from.width || scales.exponents[x] == OZAKI_NOT_FINITE)
        return;
    const int exponent = scales.exponents[x];
    unsigned long long squares = 0;
    for (int64_t p = first; p < min(first + MEASURED_STEPS, from.depth); p++) {
        const uint64_t coarse = ozaki_coarse((double)from.at(x, p), exponent);
        squares += coarse * coarse;
    }
    atomicAdd(&scales.squares[x], squares);
}

__global__ void __launch_bounds__(THREADS)
    find_shifts(const residues moduli, ozaki_scales scales, int64_t count)
{
    const int64_t x = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (x < count)
        scales.shifts[x] = ozaki_shift(&moduli, scales.exponents[x], scales.squares[x]);
}

/* Where the number of a step is in shared memory, such that threads with PACK steps each meet few
 * banks twice. */
__device__ __forceinline__ int spread(int p)
{
    return p + p / PACK;
}

/* Residues of PACK steps. */
__device__ __forceinline__ uint64_t residues_of(const modulus &m, const uint64_t digits[PACK])
{
    uint64_t packed = 0;
#pragma unroll
    for (int e = 0; e < PACK; e++)
        packed |= (uint64_t)(uint8_t)ozaki_residue(&m, digits[e]) << 8 * e;
    return packed;
}

/* Residues of PACK steps, of digits in shared memory, to the planes from `to` on. */
__device__ __forceinline__ void store_residues(const residues &moduli, const uint64_t *numbers,
                                               int8_t *to, int64_t plane)
{
    uint64_t digits[PACK];
#pragma unroll
    for (int e = 0; e < PACK; e++)
        digits[e] = numbers[e];
    for (int q = 0; q < moduli.count; q++, to += plane)
        *reinterpret_cast<uint64_t *>(to) = residues_of(moduli.moduli[q], digits);
}

/* A tile of lines and steps: as digits in shared memory, then as residues. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    convert(const residues moduli, lines_abreast<T> from, ozaki_scales scales, int8_t *planes,
            int64_t height, int64_t depth)
{
    __shared__ uint64_t numbers[TILE_ROWS][TILE_STEPS + TILE_STEPS / PACK + 1];
    const int64_t x0 = (int64_t)blockIdx.x * TILE_ROWS, p0 = (int64_t)blockIdx.y * TILE_STEPS;
    for (int element = threadIdx.x; element < TILE_ROWS * TILE_STEPS; element += THREADS) {
        const int x = element % TILE_ROWS, p = element / TILE_ROWS;
        int64_t integer = 0;
        if (x0 + x < from.width && p0 + p < from.depth &&
            scales.exponents[x0 + x] != OZAKI_NOT_FINITE)
            integer = ozaki_integer((double)from.at(x0 + x, p0 + p), scales.shifts[x0 + x]);
        numbers[x][spread(p)] = ozaki_digits(integer);
    }
    __syncthreads();
    for (int pack = threadIdx.x; pack < TILE_ROWS * TILE_STEPS / PACK; pack += THREADS) {
        const int x = pack / (TILE_STEPS / PACK), p = pack % (TILE_STEPS / PACK) * PACK;
        store_residues(moduli, &numbers[x][spread(p)], planes + (x0 + x) * depth + p0 + p,
                       height * depth);
    }
}

/* What the threads of a block reduce, in as many numbers as a warp has lanes. */
struct line_measures {
    int exponents[32];
    unsigned long long squares[32];
};

/* The scale of a line of which each thread holds some numbers, the others 0. */
template <typename T>
__device__ __forceinline__ void measure_line(const residues &moduli, const T held[HELD],
                                             line_measures &line, ozaki_scales scales, int64_t x)
{
    const int lane = threadIdx.x % 32;
    int exponent = OZAKI_ZERO;
    unsigned long long squares = 0;
    if (threadIdx.x < 32) {
        line.exponents[lane] = OZAKI_ZERO;
        line.squares[lane] = 0;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < HELD; e++)
        exponent = max(exponent, ozaki_exponent((double)held[e]));
    atomicMax(&line.exponents[lane], exponent);
    __syncthreads();
    for (int i = 0; i < 32; i++)
        exponent = max(exponent, line.exponents[i]);
    if (exponent != OZAKI_NOT_FINITE)
#pragma unroll
        for (int e = 0; e < HELD; e++) {
            const uint64_t coarse = ozaki_coarse((double)held[e], exponent);
            squares += coarse * coarse;
        }
    atomicAdd(&line.squares[lane], squares);
    __syncthreads();
    if (threadIdx.x == 0) {
        squares = 0;
        for (int i = 0; i < 32; i++)
            squares += line.squares[i];
        scales.exponents[x] = exponent;
        scales.shifts[x] = ozaki_shift(&moduli, exponent, squares);
    }
    __syncthreads();
}

/* A line whose steps are neighbours in memory, measured and converted while the block holds it. */
template <typename T>
__global__ void __launch_bounds__(LINE_THREADS)
    convert_line(const residues moduli, operand<T, true> from, ozaki_scales scales, int8_t *planes,
                 int64_t height, int64_t depth)
{
    __shared__ line_measures line;
    uint64_t *numbers = reinterpret_cast<uint64_t *>(dynamic_shared());
    const int64_t x = blockIdx.x;
    const int steps = x < from.width ? (int)from.depth : 0;
    T held[HELD];
#pragma unroll
    for (int e = 0; e < HELD; e++) {
        const int p = threadIdx.x + e * LINE_THREADS;
        held[e] = p < steps ? from.at(x, p) : T(0);
    }
    measure_line(moduli, held, line, scales, x);
    const bool finite = scales.exponents[x] != OZAKI_NOT_FINITE;
    const int shift = scales.shifts[x];
#pragma unroll
    for (int e = 0; e < HELD; e++)
        numbers[spread(threadIdx.x + e * LINE_THREADS)] =
            ozaki_digits(finite ? ozaki_integer((double)held[e], shift) : 0);
    __syncthreads();
    for (int p = threadIdx.x * PACK; p < depth; p += LINE_THREADS * PACK)
        store_residues(moduli, &numbers[spread(p)], planes + x * depth + p, height * depth);
}

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

/* The integer behind the residues of QUAD neighbours in a column of C. */
template <int PARTS>
__device__ __forceinline__ void values_at(const residues &moduli, const ozaki_planes &planes,
                                          int64_t i, int64_t j, double values[QUAD])
{
    const int8_t *from = planes.c + j * planes.m + i;
    double sums[QUAD][RESIDUES_PARTS] = {};
    for (int first = 0; first < moduli.count; first += AHEAD) {
        uint32_t packed[AHEAD];
#pragma unroll
        for (int q = 0; q < AHEAD; q++, from += planes.n * planes.m)
            if (first + q < moduli.count)
                packed[q] = *reinterpret_cast<const uint32_t *>(from);
#pragma unroll
        for (int q = 0; q < AHEAD; q++)
            if (first + q < moduli.count)
#pragma unroll
                for (int e = 0; e < QUAD; e++)
                    ozaki_accumulate(&moduli, PARTS, first + q, (int8_t)(packed[q] >> 8 * e),
                                     sums[e]);
    }
#pragma unroll
    for (int e = 0; e < QUAD; e++)
        values[e] = ozaki_value(&moduli, PARTS, sums[e]);
}

/* A block has THREADS QUAD elements of a column of C: a thread QUAD neighbours, as residues, and
 * every THREADS-th element, as a sum. */
template <typename T, int PARTS>
__global__ void __launch_bounds__(THREADS)
    reconstruct(const residues moduli, const product<T> g, strided<T> a, strided<T> b,
                ozaki_planes planes)
{
    __shared__ double values[THREADS * QUAD];
    const int64_t i0 = (int64_t)blockIdx.x * THREADS * QUAD, j = blockIdx.y;
    const int first = threadIdx.x * QUAD;
    T before[QUAD];
#pragma unroll
    for (int s = 0; s < QUAD; s++) {
        const int64_t i = i0 + threadIdx.x + s * THREADS;
        before[s] = g.beta == T(0) || i >= g.m ? T(0) : g.c[i + j * g.ldc];
    }
    if (i0 + first < g.m)
        values_at<PARTS>(moduli, planes, i0 + first, j, values + first);
    __syncthreads();
#pragma unroll
    for (int s = 0; s < QUAD; s++) {
        const int e = threadIdx.x + s * THREADS;
        const int64_t i = i0 + e;
        T *c = &g.c[i + j * g.ldc];
        if (i >= g.m)
            return;
        if (planes.scales_a.exponents[i] == OZAKI_NOT_FINITE ||
            planes.scales_b.exponents[j] == OZAKI_NOT_FINITE)
            *c = running_sum(a, i, b, j, g.k, before[s]);
        else
            *c = (T)ozaki_added((double)before[s], values[e], planes.scales_a.shifts[i],
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

static unsigned blocks_of(int64_t count, int64_t each)
{
    return (unsigned)((count + each - 1) / each);
}

/* The planes of one operand. */
template <typename T>
static cudaError_t convert_operand(const residues &moduli, const operand<T, true> &from,
                                   const ozaki_scales &scales, int8_t *planes, int64_t height,
                                   int64_t depth, cudaStream_t stream)
{
    constexpr size_t shared = (OZAKI_BLOCK + OZAKI_BLOCK / PACK) * sizeof(uint64_t);
    return start_kernel(convert_line<T>, (unsigned)height, LINE_THREADS, shared, stream, moduli,
                        from, scales, planes, height, depth);
}

template <typename T>
static cudaError_t convert_operand(const residues &moduli, const lines_abreast<T> &from,
                                   const ozaki_scales &scales, int8_t *planes, int64_t height,
                                   int64_t depth, cudaStream_t stream)
{
    const dim3 measuring(blocks_of(from.width, THREADS), blocks_of(from.depth, MEASURED_STEPS));
    const dim3 converting(blocks_of(height, TILE_ROWS), blocks_of(depth, TILE_STEPS));
    const unsigned each = blocks_of(height, THREADS);
    cudaError_t status = start_kernel(clear_scales, each, THREADS, 0, stream, scales, height);
    if (status == cudaSuccess)
        status = start_kernel(measure_exponents<T>, measuring, THREADS, 0, stream, from, scales);
    if (status == cudaSuccess)
        status = start_kernel(measure_squares<T>, measuring, THREADS, 0, stream, from, scales);
    if (status == cudaSuccess)
        status = start_kernel(find_shifts, each, THREADS, 0, stream, moduli, scales, height);
    if (status == cudaSuccess)
        status = start_kernel(convert<T>, converting, THREADS, 0, stream, moduli, from, scales,
                              planes, height, depth);
    return status;
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

template <typename T>
static cudaError_t reconstruct_part(const residues &moduli, const product<T> &part,
                                    const strided<T> &a, const strided<T> &b,
                                    const ozaki_planes &planes, cudaStream_t stream)
{
    static_assert(RESIDUES_PARTS == 4, "kernels for 2 to 4 parts");
    const auto kernel = moduli.parts == 2   ? reconstruct<T, 2>
                        : moduli.parts == 3 ? reconstruct<T, 3>
                                            : reconstruct<T, 4>;
    const dim3 grid(blocks_of(part.m, THREADS * QUAD), (unsigned)part.n);
    return start_kernel(kernel, grid, THREADS, 0, stream, moduli, part, a, b, planes);
}

template <typename T, bool TRANS_A, bool TRANS_B>
static cudaError_t multiply_part(const product<T> &part, const ozaki &o, bool convert_a,
                                 uint64_t seed, const ozaki_planes &planes, cudaStream_t stream)
{
    const strided<T> a = {part.a, TRANS_A ? part.lda : 1, TRANS_A ? 1 : part.lda};
    const strided<T> b = {part.b, TRANS_B ? 1 : part.ldb, TRANS_B ? part.ldb : 1};
    cudaError_t status = cudaSuccess;
    if (convert_a)
        status = convert_operand(*o.residues, operand_a<TRANS_A>(part), planes.scales_a, planes.a,
                                 planes.m, planes.k, stream);
    if (status == cudaSuccess)
        status = convert_operand(*o.residues, operand_b<TRANS_B>(part), planes.scales_b, planes.b,
                                 planes.n, planes.k, stream);
    if (status == cudaSuccess)
        status = multiply_planes(o, planes, stream);
    if (status == cudaSuccess && o.wrong)
        status = ozaki_check(*o.residues, planes, seed, o.wrong, stream);
    return status == cudaSuccess ? reconstruct_part(*o.residues, part, a, b, planes, stream)
                                 : status;
}

template <typename T, bool TRANS_A, bool TRANS_B>
static cudaError_t multiply(const struct gemm *gemm, const ozaki &o, cudaStream_t stream)
{
    product<T> g = product_of<T>(gemm);
    const auto [rows, cols] = ozaki_part(o.residues->count, o.bytes, g.m, o.cols, g.k);
    const bool has_a = o.same_a && rows >= g.m && g.k <= OZAKI_BLOCK;
    uint64_t parts = 0;
    for (int64_t p = 0; p < g.k; p += OZAKI_BLOCK)
        for (int64_t i = 0; i < g.m; i += rows)
            for (int64_t j = 0; j < g.n; j += cols) {
                const product<T> part = part_of<T, TRANS_A, TRANS_B>(g, i, j, p, rows, cols);
                const cudaError_t status = multiply_part<T, TRANS_A, TRANS_B>(
                    part, o, j == 0 && !has_a, mix_number(o.seed, parts++),
                    ozaki_planes_at(&o, part.m, part.n, part.k), stream);
                if (status != cudaSuccess)
                    return status;
            }
    return cudaSuccess;
}

template <typename T>
static cudaError_t multiply_type(const struct gemm *gemm, const ozaki &o, cudaStream_t stream)
{
    if (gemm->trans_a)
        return gemm->trans_b ? multiply<T, true, true>(gemm, o, stream)
                             : multiply<T, true, false>(gemm, o, stream);
    return gemm->trans_b ? multiply<T, false, true>(gemm, o, stream)
                         : multiply<T, false, false>(gemm, o, stream);
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
    return gemm->type == SCALAR_FLOAT ? multiply_type<float>(gemm, *ozaki, stream)
                                      : multiply_type<double>(gemm, *ozaki, stream);
}
