/* The first half of products in residues on the GPU (ozaki_cuda.cu): rows of op(A) and columns of
 * op(B), lines for short, are measured and converted to planes. */
#pragma once

#include "gemm_common.cuh"
#include "ozaki_part.h"
#include "ozaki_scheme.h"

constexpr int THREADS = 256;
constexpr int MEASURED_STEPS = 256;                                  /* of k, a thread */
constexpr int PACK = 8;                                              /* bytes a store */
constexpr int LINE_THREADS = 512, HELD = OZAKI_BLOCK / LINE_THREADS; /* of a line; numbers each */
constexpr int LOADS = 8;                                             /* in flight, a thread */

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

/* Residues of PACK steps in the planes of a modulus. */
__device__ __forceinline__ void convert_pack(const modulus &m, const uint64_t (&digits)[PACK],
                                             uint64_t (&packed)[1])
{
    uint32_t words[PACK];
#pragma unroll
    for (int e = 0; e < PACK; e++)
        words[e] = ozaki_residue(&m, digits[e]);
    packed[0] = lowest_bytes(words);
}

/* Likewise of complex numbers. */
__device__ __forceinline__ void convert_pack(const modulus &m, const uint64_t (&digits)[2 * PACK],
                                             uint64_t (&packed)[2])
{
    uint32_t plus[PACK], minus[PACK];
#pragma unroll
    for (int e = 0; e < PACK; e++)
        ozaki_residues(&m, digits[2 * e], digits[2 * e + 1], &plus[e], &minus[e]);
    packed[0] = lowest_bytes(plus);
    packed[1] = lowest_bytes(minus);
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

/* Sums over a warp, which each lane keeps of the planes of one modulus. */
template <bool COMPLEX>
struct kept_sums {
    int of[WIDTH<COMPLEX>];

    __device__ __forceinline__ void add(int modulus, int plane, int x)
    {
        const int sum = warp_sum(x);
        if ((int)threadIdx.x % 32 == modulus)
            of[plane] += sum;
    }
};

/* The sum of products of PACK residues each, and `sum`. */
__device__ __forceinline__ int dot(uint64_t left, uint64_t right, int sum)
{
    sum = ozaki_dot((uint32_t)left, (int32_t)right, sum);
    return ozaki_dot((uint32_t)(left >> 32), (int32_t)(right >> 32), sum);
}

/* Where the planes of an operand are, `height` lines of `depth` steps each, and what the check
 * expects of op(B): from the sums of each line go its residues times those in `projected`. */
struct converted {
    int8_t *planes;
    int64_t height, depth;
    const int8_t *projected; /* `depth` residues for each plane; null: nothing is checked */
    int *sums;               /* `height` for each plane */
};

/* A thread converts EACH real numbers of a line: PACKS times those of PACK steps. */
constexpr int EACH = 16;
template <bool COMPLEX>
constexpr int PACKS = EACH / (WIDTH<COMPLEX> * PACK);

__device__ __forceinline__ uint64_t load(const int8_t *from)
{
    return *reinterpret_cast<const uint64_t *>(from);
}

/* Residues of a warp's part of line x, from step p on, to all planes, of its digits in shared
 * memory: 32 packs, and 32 more.  Beyond the depth residues are 0, and their factors are whatever
 * the workspace has there. */
template <bool COMPLEX>
__device__ __forceinline__ void store_residues(const residues &moduli, const uint64_t *numbers,
                                               const converted &to, int64_t x, int64_t p)
{
    constexpr int STEPS = 32 * PACK, NUMBERS = WIDTH<COMPLEX> * PACK;
    const int lane = threadIdx.x % 32, first = lane * PACK, left = (int)(to.depth - p);
    const int64_t plane = to.height * to.depth;
    int8_t *at = to.planes + x * to.depth + p + first;
    const bool checked = to.projected;
    const int8_t *times = to.projected + p + first;
    uint64_t digits[PACKS<COMPLEX>][NUMBERS];
    kept_sums<COMPLEX> kept = {};
#pragma unroll
    for (int pack = 0; pack < PACKS<COMPLEX>; pack++)
#pragma unroll
        for (int e = 0; e < NUMBERS; e++)
            digits[pack][e] = numbers[spread(WIDTH<COMPLEX> * (pack * STEPS + first) + e)];
#pragma unroll 1
    for (int q = 0; q < moduli.count; q++) {
        uint64_t packed[PACKS<COMPLEX>][WIDTH<COMPLEX>], factors[PACKS<COMPLEX>][WIDTH<COMPLEX>];
#pragma unroll
        for (int pack = 0; pack < PACKS<COMPLEX>; pack++)
#pragma unroll
            for (int side = 0; side < WIDTH<COMPLEX>; side++)
                factors[pack][side] = checked ? load(times + side * to.depth + pack * STEPS) : 0;
#pragma unroll
        for (int pack = 0; pack < PACKS<COMPLEX>; pack++)
            convert_pack(moduli.moduli[q], digits[pack], packed[pack]);
#pragma unroll
        for (int side = 0; side < WIDTH<COMPLEX>; side++, at += plane, times += to.depth) {
            int sum = 0;
#pragma unroll
            for (int pack = 0; pack < PACKS<COMPLEX>; pack++) {
                sum = dot(packed[pack][side], factors[pack][side], sum);
                if (pack * STEPS + first < left)
                    *reinterpret_cast<uint64_t *>(at + pack * STEPS) = packed[pack][side];
            }
            if (checked)
                kept.add(q, side, sum);
        }
    }
    if (checked && lane < moduli.count)
        for (int side = 0; side < WIDTH<COMPLEX>; side++)
            atomicAdd(&to.sums[(WIDTH<COMPLEX> * lane + side) * to.height + x], -kept.of[side]);
}

/* A block converts so many lines and real numbers of each. */
constexpr int TILE_LINES = 8, TILE_STEPS = 32 * EACH;

/* A tile of lines and steps: as digits in shared memory, then as residues. */
template <bool COMPLEX, typename T, class LINES_ABREAST>
__global__ void __launch_bounds__(THREADS)
    convert(const residues moduli, LINES_ABREAST from, ozaki_scales scales, converted to)
{
    constexpr int ABREAST = THREADS / TILE_LINES; /* steps */
    static_assert(TILE_STEPS % (LOADS * ABREAST) == 0, "whole turns");
    __shared__ uint64_t numbers[TILE_LINES][TILE_STEPS + TILE_STEPS / PACK + 1];
    const int64_t x0 = (int64_t)blockIdx.x * TILE_LINES, p0 = (int64_t)blockIdx.y * TILE_STEPS;
    const int x = threadIdx.x % TILE_LINES;
    const int64_t line = min(x0 + x, from.width - 1), begin = min(p0, from.depth - 1);
    const bool finite = line == x0 + x && scales.exponents[line] != OZAKI_NOT_FINITE;
    const int shift = scales.shifts[line], steps = (int)min(from.depth - p0, (int64_t)TILE_STEPS);
    for (int first = threadIdx.x / TILE_LINES; first < TILE_STEPS; first += LOADS * ABREAST) {
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
    for (int x = threadIdx.x / 32; x < TILE_LINES; x += THREADS / 32)
        store_residues<COMPLEX>(moduli, numbers[x], to, x0 + x, p0 / WIDTH<COMPLEX>);
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
__global__ void __launch_bounds__(LINE_THREADS, 2)
    convert_line(const residues moduli, LINES from, ozaki_scales scales, converted to)
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
    static_assert(HELD == EACH, "one turn for all warps");
    const int first = threadIdx.x / 32 * TILE_STEPS;
    if (first < WIDTH<COMPLEX> * to.depth)
        store_residues<COMPLEX>(moduli, numbers + spread(first), to, x, first / WIDTH<COMPLEX>);
}

static unsigned blocks_of(int64_t count, int64_t each)
{
    return (unsigned)((count + each - 1) / each);
}

/* The planes of one operand whose steps are neighbours in memory. */
template <bool COMPLEX, typename T, template <typename, bool> class LINES>
static cudaError_t convert_operand(const residues &moduli, const LINES<T, true> &from,
                                   const ozaki_scales &scales, const converted &to,
                                   cudaStream_t stream)
{
    constexpr size_t shared = (OZAKI_BLOCK + OZAKI_BLOCK / PACK) * sizeof(uint64_t);
    return start_kernel(convert_line<COMPLEX, T, LINES<T, true>>, (unsigned)to.height, LINE_THREADS,
                        shared, stream, moduli, from, scales, to);
}

/* Of one in whose memory neighbours across lines, rows of op(A) or columns of op(B), are
 * neighbours: a thread measures some steps of a line. */
template <bool COMPLEX, typename T, template <typename, bool> class LINES>
static cudaError_t convert_operand(const residues &moduli, const LINES<T, false> &from,
                                   const ozaki_scales &scales, const converted &to,
                                   cudaStream_t stream)
{
    using lines = LINES<T, false>;
    const dim3 measuring(blocks_of(from.width, THREADS), blocks_of(from.depth, MEASURED_STEPS));
    const dim3 converting(blocks_of(to.height, TILE_LINES),
                          blocks_of(to.depth * WIDTH<COMPLEX>, TILE_STEPS));
    const unsigned each = blocks_of(to.height, THREADS);
    cudaError_t status = start_kernel(clear_scales, each, THREADS, 0, stream, scales, to.height);
    if (status == cudaSuccess)
        status =
            start_kernel(measure_exponents<lines>, measuring, THREADS, 0, stream, from, scales);
    if (status == cudaSuccess)
        status = start_kernel(measure_squares<lines>, measuring, THREADS, 0, stream, from, scales);
    if (status == cudaSuccess)
        status = start_kernel(find_shifts, each, THREADS, 0, stream, moduli, scales, to.height);
    if (status == cudaSuccess)
        status = start_kernel(convert<COMPLEX, T, lines>, converting, THREADS, 0, stream, moduli,
                              from, scales, to);
    return status;
}
