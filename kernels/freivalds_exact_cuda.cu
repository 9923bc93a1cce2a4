/* The sums of the check of integers (freivalds.h), modulo 2^64, on the GPU: each matrix is read
 * once, and what limits is the memory's bandwidth. */
#include "freivalds_exact.h"
#include "launch.cuh"

constexpr int THREADS = 256, NEIGHBOURS = 32;

/* The sums of a line, or of a part of it. */
struct line_sums {
    uint64_t sum;
    double square;
};

/* A block has the threads of a line, or of NEIGHBOURS lines that are neighbours in memory. */
template <typename T, bool CONTIGUOUS, bool SQUARES>
__global__ void __launch_bounds__(THREADS) exact_kernel(const exact_lines e)
{
    constexpr int LINES = CONTIGUOUS ? 1 : NEIGHBOURS, PARTS = THREADS / LINES;
    __shared__ line_sums part[PARTS][LINES];
    const int x = threadIdx.x % LINES, y = threadIdx.x / LINES;
    const int64_t line = (int64_t)blockIdx.x * LINES + x;
    const bool inside = line < e.lines;
    const T *from = static_cast<const T *>(e.matrix) + (inside ? line : 0) * e.across;
    line_sums mine = {};
#pragma unroll 8
    for (int64_t j = y; j < e.length; j += PARTS) {
        const T element = from[j * e.along];
        mine.sum += (uint64_t)element * e.x[j];
        if (SQUARES)
            mine.square = fma((double)element, (double)element, mine.square);
    }
    part[y][x] = mine;
    for (int half = PARTS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (y < half) {
            part[y][x].sum += part[y + half][x].sum;
            part[y][x].square += part[y + half][x].square;
        }
    }
    if (y > 0 || !inside)
        return;
    e.to[line] = part[0][x].sum + (e.add ? e.to[line] : 0);
    if (SQUARES)
        e.squares[line] = part[0][x].square + (e.add ? e.squares[line] : 0);
}

template <typename T, bool SQUARES>
static cudaError_t start(const exact_lines &e, cudaStream_t stream)
{
    const bool contiguous = e.along == 1;
    const int64_t each = contiguous ? 1 : NEIGHBOURS;
    const auto kernel =
        contiguous ? exact_kernel<T, true, SQUARES> : exact_kernel<T, false, SQUARES>;
    if (e.lines == 0)
        return cudaSuccess;
    return start_kernel(kernel, (unsigned)((e.lines + each - 1) / each), THREADS, 0, stream, e);
}

cudaError_t exact_lines_cuda(const struct exact_lines *e, cudaStream_t stream)
{
    switch (e->type) {
    case SCALAR_INT8: return start<int8_t, false>(*e, stream);
    case SCALAR_UINT8: return start<uint8_t, false>(*e, stream);
    case SCALAR_INT16: return start<int16_t, false>(*e, stream);
    case SCALAR_UINT16: return start<uint16_t, false>(*e, stream);
    case SCALAR_INT32: return start<int32_t, false>(*e, stream);
    case SCALAR_UINT32: return start<uint32_t, false>(*e, stream);
    default: return start<int64_t, true>(*e, stream);
    }
}
