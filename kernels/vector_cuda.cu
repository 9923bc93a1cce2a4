/* combine, mirror, reflect, standardize, recentre, embed and fold on the GPU: one pass over memory,
 * limited by its bandwidth. */
#include "int64_combine.h"
#include "launch.cuh"
#include "standardized.h"

__device__ __forceinline__ float fused(float x, float y, float z)
{
    return fmaf(x, y, z);
}

__device__ __forceinline__ double fused(double x, double y, double z)
{
    return fma(x, y, z);
}

/* alpha acc + beta c0, of which neither is read where its factor is 0. */
template <typename SUM, typename T>
__device__ __forceinline__ T combined_at(T alpha, const SUM *acc, T beta, const T *c0)
{
    if (alpha == T(0))
        return beta == T(0) ? T(0) : beta * *c0;
    return beta == T(0) ? alpha * (T)*acc : fused(alpha, (T)*acc, beta * *c0);
}

/* What becomes of sums: that, in floating-point numbers. */
template <typename SUM, typename T>
struct real_result {
    using sum = SUM;
    using element = T;
    static constexpr int BLOCKS = 0; /* of mirror_kernel on a multiprocessor; 0: any number */

    template <class PARAMETERS>
    __device__ __forceinline__ static T of(const PARAMETERS &p, const SUM *acc, const T *c0)
    {
        return combined_at((T)p.alpha, acc, (T)p.beta, c0);
    }
};

/* Likewise, in integers. */
template <bool WRAPS>
struct int64_result {
    using sum = int64_t;
    using element = int64_t;
    static constexpr int BLOCKS = 6; /* with 40 registers; ptxas, left alone, chooses to spill */

    template <class PARAMETERS>
    __device__ __forceinline__ static int64_t of(const PARAMETERS &p, const int64_t *acc,
                                                 const int64_t *c0)
    {
        return WRAPS ? int64_wrapped(p.alpha, *acc, p.beta, c0)
                     : int64_combined(p.alpha, *acc, p.beta, c0);
    }
};

/* Call `start` with the result that the parameters ask for. */
template <class PARAMETERS, class START>
static cudaError_t with_result(const PARAMETERS &p, const START &start)
{
    if (p.type == SCALAR_INT64)
        return p.whole ? start(int64_result<false>()) : start(int64_result<true>());
    if (p.whole)
        return start(real_result<int64_t, double>());
    return for_real(p.type, [&](auto x) { return start(real_result<decltype(x), decltype(x)>()); });
}

constexpr int COMBINE_X = 64, COMBINE_Y = 4, GRID_Y_MAX = 65535;

/* Blocks of height x width elements; of very many rows each block takes several. */
static dim3 blocks_over(int64_t rows, int height, int64_t cols, int width)
{
    int64_t down = (rows + height - 1) / height;
    return dim3((unsigned)((cols + width - 1) / width),
                (unsigned)(down < GRID_Y_MAX ? down : GRID_Y_MAX));
}

/* One element per thread, consecutive threads along a row; a grid-stride loop covers rows beyond
 * GRID_Y_MAX. */
template <class RESULT>
__global__ void __launch_bounds__(COMBINE_X *COMBINE_Y) combine_kernel(const struct combine p)
{
    using element = typename RESULT::element;
    const int64_t j = (int64_t)blockIdx.x * COMBINE_X + threadIdx.x;
    if (j >= p.cols)
        return;
    for (int64_t i = (int64_t)blockIdx.y * COMBINE_Y + threadIdx.y; i < p.rows;
         i += (int64_t)gridDim.y * COMBINE_Y) {
        auto *acc = static_cast<typename RESULT::sum *>(p.acc) + i * p.ld_acc + j;
        const element *c0 = static_cast<const element *>(p.c0) + i * p.ld_c0 + j;
        const element result = RESULT::of(p, acc, c0);
        memcpy(acc, &result, sizeof result);
    }
}

/* Complex alpha and beta, rounded. */
template <typename T>
struct factors {
    T alpha, beta, alpha_i, beta_i;

    template <class PARAMETERS>
    __device__ __forceinline__ explicit factors(const PARAMETERS &p)
        : alpha((T)p.alpha), beta((T)p.beta), alpha_i((T)p.alpha_i), beta_i((T)p.beta_i)
    {
    }
};

/* alpha acc + beta c0 of pairs, of which neither is read where its factor is 0. */
template <typename T>
__device__ __forceinline__ void combine_pair(const factors<T> &f, const T *acc, const T *c0, T *to)
{
    T r = 0, s = 0;
    if (f.beta != T(0) || f.beta_i != T(0)) {
        r = fused(f.beta, c0[0], -(f.beta_i * c0[1]));
        s = fused(f.beta, c0[1], f.beta_i * c0[0]);
    }
    if (f.alpha != T(0) || f.alpha_i != T(0)) {
        const T xr = acc[0], xi = acc[1];
        r = fused(f.alpha, xr, fused(-f.alpha_i, xi, r));
        s = fused(f.alpha, xi, fused(f.alpha_i, xr, s));
    }
    to[0] = r;
    to[1] = s;
}

/* One pair per thread, likewise. */
template <typename T>
__global__ void __launch_bounds__(COMBINE_X *COMBINE_Y) combine_pairs_kernel(const struct combine p)
{
    const factors<T> f(p);
    const int64_t j = 2 * ((int64_t)blockIdx.x * COMBINE_X + threadIdx.x);
    if (j >= p.cols)
        return;
    for (int64_t i = (int64_t)blockIdx.y * COMBINE_Y + threadIdx.y; i < p.rows;
         i += (int64_t)gridDim.y * COMBINE_Y) {
        T *acc = static_cast<T *>(p.acc) + i * p.ld_acc + j;
        combine_pair(f, acc, static_cast<const T *>(p.c0) + i * p.ld_c0 + j, acc);
    }
}

/* Start a kernel whose blocks of COMBINE_X x COMBINE_Y threads go over rows x cols. */
template <class PARAMETERS>
static cudaError_t start_over(void (*kernel)(PARAMETERS), const PARAMETERS &p, int64_t rows,
                              int64_t cols, cudaStream_t stream)
{
    if (rows == 0 || cols == 0)
        return cudaSuccess;
    return start_kernel(kernel, blocks_over(rows, COMBINE_Y, cols, COMBINE_X),
                        dim3(COMBINE_X, COMBINE_Y), 0, stream, p);
}

cudaError_t combine_cuda(const struct combine *combine, cudaStream_t stream)
{
    if (combine_is_complex(combine))
        return for_real(combine->type, [&](auto x) {
            return start_over(combine_pairs_kernel<decltype(x)>, *combine, combine->rows,
                              combine->cols / 2, stream);
        });
    return with_result(*combine, [&](auto result) {
        return start_over(combine_kernel<decltype(result)>, *combine, combine->rows, combine->cols,
                          stream);
    });
}

/* One element per thread, as in combine_kernel. */
template <typename T>
__global__ void __launch_bounds__(COMBINE_X *COMBINE_Y) fold_kernel(const struct fold p)
{
    const int64_t j = (int64_t)blockIdx.x * COMBINE_X + threadIdx.x;
    if (j >= p.cols)
        return;
    for (int64_t i = (int64_t)blockIdx.y * COMBINE_Y + threadIdx.y; i < p.rows;
         i += (int64_t)gridDim.y * COMBINE_Y) {
        T sum = static_cast<const T *>(p.acc)[i * p.ld + j];
        for (int k = 0; k < p.count; k++)
            sum += static_cast<const T *>(p.addends[k])[i * p.ld + j];
        static_cast<T *>(p.to)[i * p.ld + j] = sum;
    }
}

cudaError_t fold_cuda(const struct fold *fold, cudaStream_t stream)
{
    if (fold->type == SCALAR_INT64)
        return start_over(fold_kernel<uint64_t>, *fold, fold->rows, fold->cols, stream);
    return for_real(fold->type, [&](auto x) {
        return start_over(fold_kernel<decltype(x)>, *fold, fold->rows, fold->cols, stream);
    });
}

constexpr int MIRROR_SIDE = 32, MIRROR_ROWS = 8;

/* An element of a mirror. */
template <class RESULT>
__device__ __forceinline__ void
mirror_element(const struct mirror &p, const typename RESULT::sum *acc, int64_t row, int64_t col)
{
    using element = typename RESULT::element;
    static_cast<element *>(p.to)[row * p.ld_to + col] =
        RESULT::of(p, acc, static_cast<const element *>(p.c0) + row * p.ld_c0 + col);
}

/* A block of threads transposes MIRROR_SIDE x MIRROR_SIDE elements through shared memory, so that
 * both sides are accessed along rows. */
template <class RESULT>
__global__ void __launch_bounds__(MIRROR_SIDE *MIRROR_ROWS, RESULT::BLOCKS)
    mirror_kernel(const struct mirror p)
{
    using T = typename RESULT::sum;
    __shared__ T piece[MIRROR_SIDE][MIRROR_SIDE + 1];
    const int64_t left = (int64_t)blockIdx.x * MIRROR_SIDE;
    for (int64_t top = (int64_t)blockIdx.y * MIRROR_SIDE; top < p.rows;
         top += (int64_t)gridDim.y * MIRROR_SIDE) {
        for (int y = threadIdx.y; y < MIRROR_SIDE; y += MIRROR_ROWS)
            if (top + y < p.rows && left + threadIdx.x < p.cols)
                piece[y][threadIdx.x] =
                    static_cast<const T *>(p.acc)[(top + y) * p.ld_acc + left + threadIdx.x];
        __syncthreads();
        for (int y = threadIdx.y; y < MIRROR_SIDE; y += MIRROR_ROWS) {
            const int64_t row = left + y, col = top + threadIdx.x;
            if (row < p.cols && col < p.rows)
                mirror_element<RESULT>(p, &piece[threadIdx.x][y], row, col);
        }
        __syncthreads();
    }
}

/* Likewise, of pairs. */
template <typename T>
__global__ void __launch_bounds__(MIRROR_SIDE *MIRROR_ROWS)
    mirror_pairs_kernel(const struct mirror p)
{
    __shared__ T piece[2][MIRROR_SIDE][MIRROR_SIDE + 1];
    const factors<T> f(p);
    const int64_t left = (int64_t)blockIdx.x * MIRROR_SIDE;
    for (int64_t top = (int64_t)blockIdx.y * MIRROR_SIDE; top < p.rows;
         top += (int64_t)gridDim.y * MIRROR_SIDE) {
        for (int y = threadIdx.y; y < MIRROR_SIDE; y += MIRROR_ROWS)
            if (top + y < p.rows && left + threadIdx.x < p.cols) {
                const T *acc =
                    static_cast<const T *>(p.acc) + (top + y) * p.ld_acc + 2 * (left + threadIdx.x);
                piece[0][y][threadIdx.x] = acc[0];
                piece[1][y][threadIdx.x] = p.conjugate ? T(0) - acc[1] : acc[1];
            }
        __syncthreads();
        for (int y = threadIdx.y; y < MIRROR_SIDE; y += MIRROR_ROWS) {
            const int64_t row = left + y, col = top + threadIdx.x;
            if (row >= p.cols || col >= p.rows)
                continue;
            const T acc[2] = {piece[0][threadIdx.x][y], piece[1][threadIdx.x][y]};
            const T *c0 = static_cast<const T *>(p.c0) + row * p.ld_c0 + 2 * col;
            T *to = static_cast<T *>(p.to) + row * p.ld_to + 2 * col;
            if (f.alpha_i != T(0) || f.beta_i != T(0)) {
                combine_pair(f, acc, c0, to);
                continue;
            }
            to[0] = combined_at(f.alpha, &acc[0], f.beta, c0);
            to[1] = combined_at(f.alpha, &acc[1], f.beta, c0 + 1);
        }
        __syncthreads();
    }
}

cudaError_t mirror_cuda(const struct mirror *mirror, cudaStream_t stream)
{
    if (mirror->rows == 0 || mirror->cols == 0)
        return cudaSuccess;
    dim3 block(MIRROR_SIDE, MIRROR_ROWS);
    dim3 grid = blocks_over(mirror->rows, MIRROR_SIDE, mirror->cols, MIRROR_SIDE);
    if (mirror->pairs)
        return for_real(mirror->type, [&](auto x) {
            return start_kernel(mirror_pairs_kernel<decltype(x)>, grid, block, 0, stream, *mirror);
        });
    return with_result(*mirror, [&](auto result) {
        return start_kernel(mirror_kernel<decltype(result)>, grid, block, 0, stream, *mirror);
    });
}

/* One pair on or below the diagonal per thread, as in combine_kernel. */
template <typename T>
__global__ void __launch_bounds__(COMBINE_X *COMBINE_Y) reflect_kernel(const struct reflect p)
{
    const int64_t j = (int64_t)blockIdx.x * COMBINE_X + threadIdx.x;
    for (int64_t i = (int64_t)blockIdx.y * COMBINE_Y + threadIdx.y; i < p.side;
         i += (int64_t)gridDim.y * COMBINE_Y) {
        T *from = static_cast<T *>(p.matrix) + i * p.ld + 2 * j,
          *to = static_cast<T *>(p.matrix) + j * p.ld + 2 * i;
        if (j < i) {
            to[0] = from[0];
            to[1] = p.conjugate ? T(0) - from[1] : from[1];
        } else if (j == i && p.conjugate && to[1] - to[1] == T(0)) {
            to[1] = (T)p.zero;
        }
    }
}

cudaError_t reflect_cuda(const struct reflect *r, cudaStream_t stream)
{
    return for_real(r->type, [&](auto x) {
        return start_over(reflect_kernel<decltype(x)>, *r, r->side, r->side, stream);
    });
}

/* One element per thread, as in combine_kernel; the division needs more than 32 registers, which
 * ptxas takes where it is to hold no more than 6 blocks on a multiprocessor. */
template <typename T>
__global__ void __launch_bounds__(COMBINE_X *COMBINE_Y, 6)
    standardize_kernel(const struct standardize p)
{
    const int64_t j = (int64_t)blockIdx.x * COMBINE_X + threadIdx.x;
    if (j >= p.cols)
        return;
    for (int64_t i = (int64_t)blockIdx.y * COMBINE_Y + threadIdx.y; i < p.rows;
         i += (int64_t)gridDim.y * COMBINE_Y) {
        T *x = static_cast<T *>(p.matrix) + i * p.ld + j;
        *x = (T)standardized(&p, (double)*x, p.by_rows ? i : j);
    }
}

cudaError_t standardize_cuda(const struct standardize *s, cudaStream_t stream)
{
    return for_real(s->type, [&](auto x) {
        return start_over(standardize_kernel<decltype(x)>, *s, s->rows, s->cols, stream);
    });
}

/* One element per thread, likewise. */
template <typename T>
__global__ void __launch_bounds__(COMBINE_X *COMBINE_Y, 6) recentre_kernel(const struct recentre p)
{
    const int64_t j = (int64_t)blockIdx.x * COMBINE_X + threadIdx.x;
    if (j >= p.cols)
        return;
    for (int64_t i = (int64_t)blockIdx.y * COMBINE_Y + threadIdx.y; i < p.rows;
         i += (int64_t)gridDim.y * COMBINE_Y) {
        T *x = static_cast<T *>(p.acc) + i * p.ld + j;
        *x = (T)recentred(&p, (double)*x, i, j);
    }
}

cudaError_t recentre_cuda(const struct recentre *r, cudaStream_t stream)
{
    return for_real(r->type, [&](auto x) {
        return start_over(recentre_kernel<decltype(x)>, *r, r->rows, r->cols, stream);
    });
}

/* One element of `from` per thread, likewise. */
template <typename FROM, typename T>
__global__ void __launch_bounds__(COMBINE_X *COMBINE_Y) embed_kernel(const struct embed p)
{
    const int64_t j = (int64_t)blockIdx.x * COMBINE_X + threadIdx.x;
    const int64_t width = p.complex ? 2 : 1, wide = p.wide ? 2 : 1, high = p.high ? 2 : 1;
    if (j >= p.cols)
        return;
    for (int64_t i = (int64_t)blockIdx.y * COMBINE_Y + threadIdx.y; i < p.rows;
         i += (int64_t)gridDim.y * COMBINE_Y) {
        const FROM *from = static_cast<const FROM *>(p.from) + i * p.ld_from + j * width;
        T *to = static_cast<T *>(p.to) + i * high * p.ld_to + j * wide;
        const T r = from[0], s = p.complex ? T(from[1]) : T(0), si = p.conjugate ? -s : s;
        to[0] = r;
        if (p.wide)
            to[1] = si;
        if (p.high)
            to[p.ld_to] = p.wide ? -si : si;
        if (p.high && p.wide)
            to[p.ld_to + 1] = r;
    }
}

cudaError_t embed_cuda(const struct embed *e, cudaStream_t stream)
{
    return for_stored(e->stored, [&](auto from, auto to) {
        return start_over(embed_kernel<decltype(from), decltype(to)>, *e, e->rows, e->cols, stream);
    });
}
