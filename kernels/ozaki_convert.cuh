/* The first half of products in residues on the GPU (ozaki_cuda.cu): rows of op(A) and columns of
 * op(B), lines for short, are measured and converted to planes. */
#pragma once

#include "gemm_common.cuh"
#include "ozaki_part.h"
#include "ozaki_scheme.h"

constexpr int THREADS = 256;
constexpr int MEASURED_STEPS = 256;                       /* of k, a thread */
constexpr int TILE_ROWS = 32, TILE_STEPS = 128, PACK = 8; /* of a conversion; bytes a store */
constexpr int LINE_THREADS = 512, HELD = OZAKI_BLOCK / LINE_THREADS; /* of a line; numbers each */

/* Real numbers of a step, or a row, of planes. */
template <bool COMPLEX>
constexpr int WIDTH = COMPLEX ? 2 : 1;

__global__ void __launch_bounds__(THREADS) clear_scales(ozaki_scales scales, int64_t count)
{
    const int64_t x = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (x >= count)
        return;
    scales.exponents[x] = OZAKI_ZERO;
    scales.squares[x] = 0;
}

/* The op(A) of a complex product, of complex numbers: re, im along k, of the first one of the two
 * rows that each has (ozaki.h). */
template <typename T, bool K_MAJOR>
struct expanded {
    const T *memory;
    int64_t ld, width, depth; /* in complex numbers; depth counts re and im */

    __device__ __forceinline__ T at(int64_t x, int64_t p) const
    {
        const int64_t imaginary = p & 1;
        if (!K_MAJOR) /* both rows, of every second step */
            return memory[2 * x + imaginary + (p - imaginary) * ld];
        const T number = memory[p + 2 * x * ld];
        return imaginary ? -number : number;
    }
};

template <bool TRANS_A, bool COMPLEX, typename T>
static auto lines_of_a(const product<T> &g)
{
    if constexpr (COMPLEX)
        return expanded<T, TRANS_A>{g.a, g.lda, g.m / 2, g.k};
    else
        return operand_a<TRANS_A>(g);
}

template <class LINES_ABREAST>
__global__ void __launch_bounds__(THREADS)
    measure_exponents(LINES_ABREAST from, ozaki_scales scales)
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

template <class LINES_ABREAST>
__global__ void __launch_bounds__(THREADS) measure_squares(LINES_ABREAST from, ozaki_scales scales)
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

/* The lowest bytes of PACK words, the first one lowest. */
__device__ __forceinline__ uint64_t lowest_bytes(const uint32_t (&words)[PACK])
{
    uint32_t half[2] = {};
#pragma unroll
    for (int e = 0; e < PACK; e++)
        half[e / 4] |= (words[e] & 255) << e % 4 * 8;
    return half[0] | (uint64_t)half[1] << 32;
}

/* Residues of PACK steps to the planes of a modulus, from `to` on. */
__device__ __forceinline__ void store_modulus(const modulus &m, const uint64_t (&digits)[PACK],
                                              int8_t *to, int64_t)
{
    uint32_t words[PACK];
#pragma unroll
    for (int e = 0; e < PACK; e++)
        words[e] = ozaki_residue(&m, digits[e]);
    *reinterpret_cast<uint64_t *>(to) = lowest_bytes(words);
}

/* Likewise of complex numbers. */
__device__ __forceinline__ void store_modulus(const modulus &m, const uint64_t (&digits)[2 * PACK],
                                              int8_t *to, int64_t plane)
{
    uint32_t plus[PACK], minus[PACK];
#pragma unroll
    for (int e = 0; e < PACK; e++)
        ozaki_residues(&m, digits[2 * e], digits[2 * e + 1], &plus[e], &minus[e]);
    *reinterpret_cast<uint64_t *>(to) = lowest_bytes(plus);
    *reinterpret_cast<uint64_t *>(to + plane) = lowest_bytes(minus);
}

/* Residues of PACK steps, of digits in shared memory, to all planes. */
template <bool COMPLEX>
__device__ __forceinline__ void store_residues(const residues &moduli, const uint64_t *numbers,
                                               int8_t *to, int64_t plane)
{
    uint64_t digits[WIDTH<COMPLEX> * PACK];
#pragma unroll
    for (int e = 0; e < WIDTH<COMPLEX> * PACK; e++)
        digits[e] = numbers[spread(e)];
    for (int q = 0; q < moduli.count; q++, to += WIDTH<COMPLEX> * plane)
        store_modulus(moduli.moduli[q], digits, to, plane);
}

/* A tile of lines and steps: as digits in shared memory, then as residues.  `height` and `depth`
 * are those of planes. */
template <bool COMPLEX, typename T, class LINES_ABREAST>
__global__ void __launch_bounds__(THREADS)
    convert(const residues moduli, LINES_ABREAST from, ozaki_scales scales, int8_t *planes,
            int64_t height, int64_t depth)
{
    constexpr int EACH = WIDTH<COMPLEX> * PACK, PACKS = TILE_STEPS / EACH; /* of a line */
    constexpr int ABREAST = THREADS / TILE_ROWS, LOADS = 8; /* steps at a time; each thread's */
    static_assert(TILE_STEPS % (LOADS * ABREAST) == 0, "whole turns");
    __shared__ uint64_t numbers[TILE_ROWS][TILE_STEPS + TILE_STEPS / PACK + 1];
    const int64_t x0 = (int64_t)blockIdx.x * TILE_ROWS, p0 = (int64_t)blockIdx.y * TILE_STEPS;
    const int x = threadIdx.x % TILE_ROWS;
    const int64_t line = min(x0 + x, from.width - 1), begin = min(p0, from.depth - 1);
    const bool finite = line == x0 + x && scales.exponents[line] != OZAKI_NOT_FINITE;
    const int shift = scales.shifts[line], steps = (int)min(from.depth - p0, (int64_t)TILE_STEPS);
    for (int first = threadIdx.x / TILE_ROWS; first < TILE_STEPS; first += LOADS * ABREAST) {
        T loaded[LOADS];
#pragma unroll
        for (int e = 0; e < LOADS; e++)
            loaded[e] = from.at(line, begin + min(first + e * ABREAST, max(steps - 1, 0)));
#pragma unroll
        for (int e = 0; e < LOADS; e++) {
            const int p = first + e * ABREAST;
            const bool inside = finite && p < steps;
            numbers[x][spread(p)] =
                ozaki_digits(inside ? ozaki_integer((double)loaded[e], shift) : 0);
        }
    }
    __syncthreads();
    for (int pack = threadIdx.x; pack < TILE_ROWS * PACKS; pack += THREADS) {
        const int x = pack / PACKS, p = pack % PACKS * EACH;
        store_residues<COMPLEX>(moduli, &numbers[x][spread(p)],
                                planes + (x0 + x) * depth + (p0 + p) / WIDTH<COMPLEX>,
                                height * depth);
    }
}

/* What the threads of a block reduce, in as many numbers as a warp has lanes. */
struct line_measures {
    int exponents[32];
    unsigned long long squares[32];
};

/* The exponent of the number that is largest in magnitude, by their bits: those of numbers that are
 * not finite are larger. */
template <typename T>
__device__ __forceinline__ int largest_exponent(const T numbers[HELD])
{
    constexpr uint64_t MAGNITUDE = ~(uint64_t)0 >> 1;
    uint64_t most = 0;
    double largest;
#pragma unroll
    for (int e = 0; e < HELD; e++) {
        const double number = (double)numbers[e];
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        most = max(most, bits & MAGNITUDE);
    }
    memcpy(&largest, &most, sizeof largest);
    return ozaki_exponent(largest);
}

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
    atomicMax(&line.exponents[lane], largest_exponent(held));
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
template <bool COMPLEX, typename T, class LINES>
__global__ void __launch_bounds__(LINE_THREADS)
    convert_line(const residues moduli, LINES from, ozaki_scales scales, int8_t *planes,
                 int64_t height, int64_t depth)
{
    constexpr int EACH = WIDTH<COMPLEX> * PACK;
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
    for (int p = threadIdx.x * EACH; p < depth * WIDTH<COMPLEX>; p += LINE_THREADS * EACH)
        store_residues<COMPLEX>(moduli, &numbers[spread(p)],
                                planes + x * depth + p / WIDTH<COMPLEX>, height * depth);
}

static unsigned blocks_of(int64_t count, int64_t each)
{
    return (unsigned)((count + each - 1) / each);
}

/* The planes of one operand whose steps are neighbours in memory. */
template <bool COMPLEX, typename T, template <typename, bool> class LINES>
static cudaError_t convert_operand(const residues &moduli, const LINES<T, true> &from,
                                   const ozaki_scales &scales, int8_t *planes, int64_t height,
                                   int64_t depth, cudaStream_t stream)
{
    constexpr size_t shared = (OZAKI_BLOCK + OZAKI_BLOCK / PACK) * sizeof(uint64_t);
    return start_kernel(convert_line<COMPLEX, T, LINES<T, true>>, (unsigned)height, LINE_THREADS,
                        shared, stream, moduli, from, scales, planes, height, depth);
}

/* Of one in whose memory neighbours across lines, rows of op(A) or columns of op(B), are
 * neighbours: a thread measures some steps of a line. */
template <bool COMPLEX, typename T, template <typename, bool> class LINES>
static cudaError_t convert_operand(const residues &moduli, const LINES<T, false> &from,
                                   const ozaki_scales &scales, int8_t *planes, int64_t height,
                                   int64_t depth, cudaStream_t stream)
{
    using lines = LINES<T, false>;
    const dim3 measuring(blocks_of(from.width, THREADS), blocks_of(from.depth, MEASURED_STEPS));
    const dim3 converting(blocks_of(height, TILE_ROWS),
                          blocks_of(depth * WIDTH<COMPLEX>, TILE_STEPS));
    const unsigned each = blocks_of(height, THREADS);
    cudaError_t status = start_kernel(clear_scales, each, THREADS, 0, stream, scales, height);
    if (status == cudaSuccess)
        status =
            start_kernel(measure_exponents<lines>, measuring, THREADS, 0, stream, from, scales);
    if (status == cudaSuccess)
        status = start_kernel(measure_squares<lines>, measuring, THREADS, 0, stream, from, scales);
    if (status == cudaSuccess)
        status = start_kernel(find_shifts, each, THREADS, 0, stream, moduli, scales, height);
    if (status == cudaSuccess)
        status = start_kernel(convert<COMPLEX, T, lines>, converting, THREADS, 0, stream, moduli,
                              from, scales, planes, height, depth);
    return status;
}
