/* combine and project on the GPU: each reads its matrix once, so memory bandwidth is the limit, and
 * the care goes into coalesced loads, enough of them in flight, and sums in a fixed order. */
#include "launch.cuh"

__device__ __forceinline__ float combined(float alpha, float acc, float beta, float c0)
{
    return fmaf(alpha, acc, beta * c0);
}

__device__ __forceinline__ double combined(double alpha, double acc, double beta, double c0)
{
    return fma(alpha, acc, beta * c0);
}

constexpr int COMBINE_X = 64, COMBINE_Y = 4, GRID_Y_MAX = 65535;

/* A thread an element, neighbours along a row; blocks stride over rows beyond the grid's reach. */
template <typename T>
__global__ void __launch_bounds__(COMBINE_X *COMBINE_Y) combine_kernel(const struct combine p)
{
    const T alpha = (T)p.alpha, beta = (T)p.beta;
    const int64_t j = (int64_t)blockIdx.x * COMBINE_X + threadIdx.x;
    if (j >= p.cols)
        return;
    for (int64_t i = (int64_t)blockIdx.y * COMBINE_Y + threadIdx.y; i < p.rows;
         i += (int64_t)gridDim.y * COMBINE_Y) {
        T *acc = static_cast<T *>(p.acc) + i * p.ld_acc + j;
        const T *c0 = static_cast<const T *>(p.c0) + i * p.ld_c0 + j;
        if (alpha == T(0))
            *acc = beta == T(0) ? T(0) : beta * *c0;
        else
            *acc = beta == T(0) ? alpha * *acc : combined(alpha, *acc, beta, *c0);
    }
}

cudaError_t combine_cuda(const struct combine *combine, cudaStream_t stream)
{
    if (combine->rows == 0 || combine->cols == 0)
        return cudaSuccess;
    int64_t bands = (combine->rows + COMBINE_Y - 1) / COMBINE_Y;
    dim3 block(COMBINE_X, COMBINE_Y);
    dim3 grid((unsigned)((combine->cols + COMBINE_X - 1) / COMBINE_X),
              (unsigned)(bands < GRID_Y_MAX ? bands : GRID_Y_MAX));
    auto kernel = combine->type == SCALAR_FLOAT ? combine_kernel<float> : combine_kernel<double>;
    return start_kernel(kernel, grid, block, 0, stream, *combine);
}

/* An element of y and of y_abs in the making. */
struct sums {
    double plain, magnitude;
};

/* The lines whose products with x make up y are the rows of M, or its columns when transposed.  A
 * block takes LINES of them and spreads each over SPLIT threads: 128 threads a row fill the machine
 * from 2000 rows on; 16 columns are a full line of doubles, and few enough that 2000 columns feed
 * 128 blocks. */
template <bool TRANS>
struct shape {
    static constexpr int LINES = TRANS ? 16 : 1, SPLIT = TRANS ? 64 : 128;
};

/* Add the elements first, first + STRIDE, ... of a line.  AHEAD of them are on their way before the
 * first is used: the loop is as fast as the number of loads in flight.  (The barrier is there for
 * the compiler, which would otherwise move each load down to its use.)  All threads of a warp make
 * the same turns. */
template <int AHEAD, int STRIDE, typename T>
__device__ __forceinline__ sums sum_line(const struct project &p, const T *line, int64_t pitch,
                                         int64_t length, int first)
{
    sums s = {0, 0};
    const T *next = line + first * pitch;
    for (int64_t base = 0; base < length; base += AHEAD * STRIDE) {
        const int64_t at = base + first;
        const int left = (int)min(length - at, (int64_t)(AHEAD * STRIDE));
        T m[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++, next += STRIDE * pitch)
            m[u] = u * STRIDE < left ? *next : T(0);
        __syncwarp();
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            double x = u * STRIDE < left ? p.x[at + u * STRIDE] : 0;
            double weight = u * STRIDE < left && p.x_abs ? p.x_abs[at + u * STRIDE] : fabs(x);
            s.plain = fma((double)m[u], x, s.plain);
            s.magnitude = fma(fabs((double)m[u]), weight, s.magnitude);
        }
    }
    return s;
}

/* Neighbouring threads work on neighbours in memory: along x on neighbouring lines, or along y on
 * one line.  In the end the threads of a line add their sums as a tree. */
template <typename T, bool TRANS>
__global__ void __launch_bounds__(shape<TRANS>::LINES *shape<TRANS>::SPLIT)
    project_kernel(const struct project p)
{
    constexpr int LINES = shape<TRANS>::LINES, SPLIT = shape<TRANS>::SPLIT;
    __shared__ sums part[SPLIT][LINES];
    const int x = threadIdx.x, y = threadIdx.y;
    const int64_t i = (int64_t)blockIdx.x * LINES + x;
    const int64_t lines = TRANS ? p.cols : p.rows, length = TRANS ? p.rows : p.cols;

    /* Threads beyond the last line go along on it, so that their warp stays together. */
    const int64_t mine = min(i, lines - 1);
    const T *line = static_cast<const T *>(p.matrix) + (TRANS ? mine : mine * p.ld);
    sums s = sum_line<8, SPLIT>(p, line, TRANS ? p.ld : 1, length, y);
    part[y][x] = s;
    for (int half = SPLIT / 2; half > 0; half /= 2) {
        __syncthreads();
        if (y < half) {
            s.plain += part[y + half][x].plain;
            s.magnitude += part[y + half][x].magnitude;
            part[y][x] = s;
        }
    }

    if (y > 0 || i >= lines)
        return;
    p.y[i] = p.accumulate ? p.y[i] + s.plain : s.plain;
    if (p.y_abs)
        p.y_abs[i] = p.accumulate ? p.y_abs[i] + s.magnitude : s.magnitude;
}

template <typename T, bool TRANS>
static cudaError_t project_launch(const struct project *p, cudaStream_t stream)
{
    constexpr int LINES = shape<TRANS>::LINES, SPLIT = shape<TRANS>::SPLIT;
    const int64_t lines = TRANS ? p->cols : p->rows;
    if (lines == 0)
        return cudaSuccess;
    const unsigned blocks = (unsigned)((lines + LINES - 1) / LINES);
    return start_kernel(project_kernel<T, TRANS>, blocks, dim3(LINES, SPLIT), 0, stream, *p);
}

cudaError_t project_cuda(const struct project *project, cudaStream_t stream)
{
    if (project->type == SCALAR_FLOAT)
        return project->trans ? project_launch<float, true>(project, stream)
                              : project_launch<float, false>(project, stream);
    return project->trans ? project_launch<double, true>(project, stream)
                          : project_launch<double, false>(project, stream);
}
