/* combine on the GPU: one pass over memory, limited by its bandwidth. */
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

/* One element per thread, consecutive threads along a row; a grid-stride loop covers rows beyond
 * GRID_Y_MAX. */
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
