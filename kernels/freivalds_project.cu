/* project on the GPU: a product with few columns, the classes, in double on the tensor cores,
 * limited by the bandwidth of reading the matrix.
 *
 * The idea: a block computes y for ROWS rows and all classes, a warp for 16 rows and up to 32
 * classes.  Since there may be few rows, blocks also split k, and a second kernel adds their
 * partial sums in a fixed order.  A ring of stages keeps enough loads in flight (cp.async). */
#include "freivalds.h"
#include "launch.cuh"
#include "ptx.cuh"

#include <float.h>

constexpr int ROWS = PROJECT_ROWS, DEPTH = 16, STAGES = 4, THREADS_ADDING = 256;
static_assert(FREIVALDS_CHAIN % DEPTH == 0 && PROJECT_STEPS % FREIVALDS_CHAIN == 0,
              "chains end where steps do");

/* Padding at the end of rows in shared memory: the lanes of a fragment have no bank conflicts. */
constexpr int PADDING = 4;

/* How a block divides its rows and classes among warps, and what one stage of the ring holds. */
template <typename T, bool TRANS, int CLASSES>
struct project_shape {
    static constexpr int WARPS_DOWN = ROWS / 16, WARPS_ACROSS = CLASSES > 32 ? 2 : 1;
    static constexpr int THREADS = 32 * WARPS_DOWN * WARPS_ACROSS;
    static constexpr int BLOCKS = CLASSES > 32 ? 2 : 3; /* per SM */
    static constexpr int EIGHTS = CLASSES / WARPS_ACROSS / 8;
    static constexpr int LOADS = ROWS * DEPTH / THREADS, LOADS_X = CLASSES * DEPTH / THREADS;

    /* The elements of M in the layout of global memory, and those of x. */
    struct pieces {
        T a[TRANS ? DEPTH : ROWS][(TRANS ? ROWS : DEPTH) + PADDING];
        double x[DEPTH][CLASSES + PADDING];
    };
    static constexpr int SHARED = STAGES * (int)sizeof(pieces);
};

/* One thread's share of the copies to shared memory, piece by piece along k. */
template <class SHAPE, typename T, bool TRANS, int CLASSES>
struct project_copier {
    static constexpr int THREADS = SHAPE::THREADS;

    const T *from; /* source of the thread's first copy of the next piece */
    const double *from_x;
    int64_t pitch; /* elements between the sources of consecutive copies */
    int height;    /* rows of M from the block's first one on, at most ROWS */
    int left;      /* remaining steps of k */

    /* Row and step of element n of a piece; consecutive threads copy consecutive elements. */
    __device__ __forceinline__ static int row(int n)
    {
        return TRANS ? n % ROWS : n / DEPTH;
    }

    __device__ __forceinline__ static int step(int n)
    {
        return TRANS ? n / ROWS : n % DEPTH;
    }

    __device__ __forceinline__ project_copier(const project &p, int64_t top, int64_t begin, int k)
        : from_x(p.x + (begin + threadIdx.x / CLASSES) * p.classes + threadIdx.x % CLASSES),
          pitch(THREADS / (TRANS ? ROWS : DEPTH) * p.ld),
          height((int)min((TRANS ? p.cols : p.rows) - top, (int64_t)ROWS)), left(k)
    {
        const int64_t i = top + row(threadIdx.x), first = begin + step(threadIdx.x);
        from = static_cast<const T *>(p.matrix) + (TRANS ? first * p.ld + i : i * p.ld + first);
    }

    /* Issue the copies of the next piece, with zero fill beyond the rows and beyond k. */
    __device__ __forceinline__ void copy(const project &p, typename SHAPE::pieces &to)
    {
        const T *at = from;
        const double *at_x = from_x;
#pragma unroll
        for (int u = 0; u < SHAPE::LOADS; u++, at += pitch) {
            const int n = u * THREADS + threadIdx.x, i = row(n), k = step(n);
            const bool inside = i < height && k < left;
            cp_async<sizeof(T)>(&to.a[TRANS ? k : i][TRANS ? i : k], inside ? at : p.matrix,
                                inside ? sizeof(T) : 0);
        }
#pragma unroll
        for (int u = 0; u < SHAPE::LOADS_X; u++, at_x += THREADS / CLASSES * p.classes) {
            const int n = u * THREADS + threadIdx.x, k = n / CLASSES, c = n % CLASSES;
            const bool inside = k < left && c < p.classes;
            cp_async<sizeof(double)>(&to.x[k][c], inside ? at_x : p.x, inside ? sizeof(double) : 0);
        }
        from += TRANS ? DEPTH * p.ld : DEPTH;
        from_x += DEPTH * p.classes;
        left -= DEPTH;
    }
};

/* A warp's accumulators: its rows times its classes, eight classes per instruction, and the squares
 * of the rows. */
template <class SHAPE, typename T, bool TRANS>
struct project_sums {
    static constexpr int EIGHTS = SHAPE::EIGHTS;

    double total[EIGHTS][4], chain[EIGHTS][4];
    double square[2]; /* of this lane's elements of rows g and g + 8 (ptx.cuh) */
    bool odd[2];      /* one of these is not finite */

    __device__ __forceinline__ static int first_row()
    {
        return threadIdx.x / 32 % SHAPE::WARPS_DOWN * 16;
    }

    __device__ __forceinline__ static int first_class()
    {
        return threadIdx.x / 32 / SHAPE::WARPS_DOWN * 8 * EIGHTS;
    }

    __device__ __forceinline__ void multiply(const typename SHAPE::pieces &from, bool absolute)
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 8) {
            double a[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = first_row() + g + e % 2 * 8, p = k + t + e / 2 * 4;
                a[e] = from.a[TRANS ? p : i][TRANS ? i : p];
                square[e % 2] = fma(a[e], a[e], square[e % 2]);
                odd[e % 2] |= !(fabs(a[e]) <= DBL_MAX);
                a[e] = absolute ? fabs(a[e]) : a[e];
            }
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) {
                const int c = first_class() + 8 * e + g;
                const double x[2] = {from.x[k + t][c], from.x[k + t + 4][c]};
                mma_m16n8k8(chain[e], a, x);
            }
        }
    }

    __device__ __forceinline__ void end_chain()
    {
#pragma unroll
        for (int e = 0; e < EIGHTS; e++)
#pragma unroll
            for (int d = 0; d < 4; d++) {
                total[e][d] += chain[e][d];
                chain[e][d] = 0;
            }
    }

    __device__ __forceinline__ void store(const project &p, int64_t top, int64_t rows, double *part)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int e = 0; e < EIGHTS; e++)
#pragma unroll
            for (int d = 0; d < 4; d++) {
                const int64_t i = top + first_row() + lane / 4 + d / 2 * 8;
                const int c = first_class() + 8 * e + lane % 4 * 2 + d % 2;
                if (i < rows && c < p.classes)
                    part[i * p.classes + c] = total[e][d];
            }
    }

    /* Store the rows' squares.  `shared`: shared memory of the block, free for reuse. */
    __device__ __forceinline__ void store_squares(double (*shared)[4], int64_t top, int64_t rows,
                                                  double *part)
    {
        const int lane = threadIdx.x % 32, t = threadIdx.x;
        __syncthreads();
        if (first_class() == 0)
            for (int e = 0; e < 2; e++)
                shared[first_row() + lane / 4 + e * 8][lane % 4] = odd[e] ? NAN : square[e];
        __syncthreads();
        if (t < ROWS && top + t < rows)
            part[top + t] = (shared[t][0] + shared[t][1]) + (shared[t][2] + shared[t][3]);
    }
};

/* Partial sums, and squares, over `each` steps of k per block. */
template <typename T, bool TRANS, int CLASSES, class SHAPE>
__global__ void __launch_bounds__(SHAPE::THREADS, SHAPE::BLOCKS)
    project_kernel(const project p, int64_t each)
{
    auto *ring = reinterpret_cast<typename SHAPE::pieces *>(dynamic_shared());
    const int64_t rows = TRANS ? p.cols : p.rows, steps = TRANS ? p.rows : p.cols;
    const int64_t top = (int64_t)blockIdx.x * ROWS, begin = blockIdx.y * each;
    const int length = (int)min(each, steps - begin);
    project_copier<SHAPE, T, TRANS, CLASSES> copier(p, top, begin, length);
    project_sums<SHAPE, T, TRANS> sums = {};

    for (int stage = 0; stage < STAGES - 1; stage++) {
        copier.copy(p, ring[stage]);
        cp_async_commit();
    }
    for (int k = 0, stage = 0; k < length; k += DEPTH, stage = (stage + 1) % STAGES) {
        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* this stage is full, and all threads have read the one before it */
        copier.copy(p, ring[(stage + STAGES - 1) % STAGES]);
        cp_async_commit();
        sums.multiply(ring[stage], p.absolute);
        if ((k + DEPTH) % FREIVALDS_CHAIN == 0 || k + DEPTH >= length)
            sums.end_chain();
    }
    cp_async_wait<0>();
    sums.store(p, top, rows, p.partial + blockIdx.y * rows * p.classes);
    sums.store_squares(reinterpret_cast<double(*)[4]>(ring), top, rows,
                       p.partial + gridDim.y * rows * p.classes + blockIdx.y * rows);
}

/* Add the partial sums over the parts of k: first those of y, then the squares. */
__global__ void __launch_bounds__(THREADS_ADDING)
    project_add_kernel(const project p, int64_t rows, int64_t parts)
{
    const int64_t sums = rows * p.classes, at = (int64_t)blockIdx.x * THREADS_ADDING + threadIdx.x;
    if (at >= sums + rows)
        return;
    const bool square = at >= sums;
    if (square && !p.squares)
        return;
    const int64_t i = square ? at - sums : at, pitch = square ? rows : sums;
    const double *from = p.partial + (square ? parts * sums : 0) + i;
    double sum = 0;
#pragma unroll 8
    for (int64_t part = 0; part < parts; part++)
        sum += from[part * pitch];
    double *to = square ? p.squares + i : p.y + i;
    *to = sum + ((square ? p.begin : p.from_zero) ? 0 : *to);
}

template <typename T, bool TRANS, int CLASSES>
static cudaError_t project_launch(const struct project *p, cudaStream_t stream)
{
    using shape = project_shape<T, TRANS, CLASSES>;
    const int64_t rows = TRANS ? p->cols : p->rows, steps = TRANS ? p->rows : p->cols;
    if (rows == 0)
        return cudaSuccess;
    const int64_t each = project_depth(rows, steps), parts = freivalds_parts(steps, each);
    const dim3 grid((unsigned)freivalds_parts(rows, ROWS), (unsigned)max(parts, (int64_t)1));
    cudaError_t status = start_kernel(project_kernel<T, TRANS, CLASSES, shape>, grid,
                                      shape::THREADS, shape::SHARED, stream, *p, each);
    if (status != cudaSuccess)
        return status;
    const int64_t results = rows * (p->classes + 1);
    const unsigned blocks = (unsigned)freivalds_parts(results, THREADS_ADDING);
    return start_kernel(project_add_kernel, blocks, THREADS_ADDING, 0, stream, *p, rows,
                        (int64_t)grid.y);
}

template <typename T, bool TRANS>
static cudaError_t project_classes(const struct project *p, cudaStream_t stream)
{
    return p->classes <= 16   ? project_launch<T, TRANS, 16>(p, stream)
           : p->classes <= 32 ? project_launch<T, TRANS, 32>(p, stream)
                              : project_launch<T, TRANS, CLASSES_MAX>(p, stream);
}

cudaError_t project_cuda(const struct project *p, cudaStream_t stream)
{
    if (p->exact) {
        const exact_lines lines = exact_project(p);
        return exact_lines_cuda(&lines, stream);
    }
    return for_real(p->type, [&](auto x) {
        return p->trans ? project_classes<decltype(x), true>(p, stream)
                        : project_classes<decltype(x), false>(p, stream);
    });
}
