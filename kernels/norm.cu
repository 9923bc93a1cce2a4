/* norm and fill on the GPU: one pass over memory each.
 *
 * A sum whose order is fixed needs no lock: each block sums its share and stores it, and a second
 * kernel adds the shares, always in the same order. */
#include "launch.cuh"

constexpr int NORM_THREADS = 256, FILL_X = 64, FILL_Y = 4, GRID_Y_MAX = 65535;

struct norms {
    double squares, max;
};

/* A NaN is larger than everything, so that it is seen. */
__device__ __forceinline__ double larger(double x, double y)
{
    return x <= y || y != y ? y : x;
}

/* Add up the block: thread 0 has the result. */
__device__ __forceinline__ norms sum_block(norms mine)
{
    __shared__ norms part[NORM_THREADS];
    const int x = threadIdx.x;
    part[x] = mine;
    for (int half = NORM_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (x < half) {
            mine.squares += part[x + half].squares;
            mine.max = larger(mine.max, part[x + half].max);
            part[x] = mine;
        }
    }
    return mine;
}

/* Block b takes the pieces b, b + NORM_SHARES, ... of all rows. */
template <typename T>
__global__ void __launch_bounds__(NORM_THREADS) norm_share_kernel(const struct norm p)
{
    const int64_t across = (p.cols + NORM_PIECE - 1) / NORM_PIECE, pieces = p.rows * across;
    norms mine = {0, 0};
    for (int64_t piece = blockIdx.x; piece < pieces; piece += NORM_SHARES) {
        const int64_t first = piece % across * NORM_PIECE;
        const T *row = static_cast<const T *>(p.matrix) + piece / across * p.ld + first;
        const int count = (int)min((int64_t)NORM_PIECE, p.cols - first);
        for (int j = threadIdx.x; j < count; j += NORM_THREADS) {
            const double x = row[j];
            mine.squares = fma(x, x, mine.squares);
            mine.max = larger(fabs(x), mine.max);
        }
    }
    mine = sum_block(mine);
    if (threadIdx.x == 0) {
        p.shares[blockIdx.x] = mine.squares;
        p.shares[NORM_SHARES + blockIdx.x] = mine.max;
    }
}

__global__ void __launch_bounds__(NORM_THREADS) norm_total_kernel(const struct norm p)
{
    norms mine = {0, 0};
    for (int share = threadIdx.x; share < NORM_SHARES; share += NORM_THREADS) {
        mine.squares += p.shares[share];
        mine.max = larger(p.shares[NORM_SHARES + share], mine.max);
    }
    mine = sum_block(mine);
    if (threadIdx.x == 0) {
        *p.sum_squares = mine.squares;
        *p.max_abs = mine.max;
    }
}

cudaError_t norm_cuda(const struct norm *norm, cudaStream_t stream)
{
    auto kernel = norm->type == SCALAR_FLOAT ? norm_share_kernel<float> : norm_share_kernel<double>;
    cudaError_t status = start_kernel(kernel, NORM_SHARES, NORM_THREADS, 0, stream, *norm);
    if (status != cudaSuccess)
        return status;
    return start_kernel(norm_total_kernel, 1, NORM_THREADS, 0, stream, *norm);
}

template <typename T>
__global__ void __launch_bounds__(FILL_X *FILL_Y) fill_kernel(const struct fill p)
{
    const int64_t j = (int64_t)blockIdx.x * FILL_X + threadIdx.x;
    if (j >= p.cols)
        return;
    for (int64_t i = (int64_t)blockIdx.y * FILL_Y + threadIdx.y; i < p.rows;
         i += (int64_t)gridDim.y * FILL_Y)
        static_cast<T *>(p.matrix)[i * p.ld + j] = (T)p.value;
}

cudaError_t fill_cuda(const struct fill *fill, cudaStream_t stream)
{
    if (fill->rows == 0 || fill->cols == 0)
        return cudaSuccess;
    const int64_t bands = (fill->rows + FILL_Y - 1) / FILL_Y;
    const dim3 block(FILL_X, FILL_Y);
    const dim3 grid((unsigned)((fill->cols + FILL_X - 1) / FILL_X),
                    (unsigned)(bands < GRID_Y_MAX ? bands : GRID_Y_MAX));
    auto kernel = fill->type == SCALAR_FLOAT ? fill_kernel<float> : fill_kernel<double>;
    return start_kernel(kernel, grid, block, 0, stream, *fill);
}
