/* How a warp records bounds on its sums (struct peaks), for warp tiles of PEAK_ROWS rows: one
 * multiply-add per sum every PEAK_STEPS steps, and a few warp shuffles. */
#pragma once

#include "gemm_async.cuh"

#include <float.h>

struct sum_of {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

struct larger_of {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return fmaxf(a, b);
    }
};

/* Reduce the numbers of the 8 lanes along m, column by column (reduce-scatter): each lane keeps the
 * results of an eighth of the columns. */
template <class COMBINE, int N, int HALF = N / 2, int BIT = 8>
__device__ __forceinline__ void fold(float (&q)[N])
{
    const bool upper = threadIdx.x & BIT;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        const float keep = upper ? q[i + HALF] : q[i], give = upper ? q[i] : q[i + HALF];
        q[i] = COMBINE()(keep, __shfl_xor_sync(0xffffffff, give, BIT));
    }
    if constexpr (BIT > 2)
        fold<COMBINE, N, HALF / 2, BIT / 2>(q);
}

template <class SHAPE>
struct peak_numbers {
    static constexpr int M = SHAPE::EACH_M, N = SHAPE::EACH_N, MINE = N / SIMT_LANES_M;
    static_assert(M * SIMT_LANES_M == PEAK_ROWS, "a warp has the rows of one peak");

    float of[N]; /* one per column; after fold, the first MINE are results */

    /* Sums of squares. */
    __device__ __forceinline__ void take_squares(const typename SHAPE::sums &c)
    {
#pragma unroll
        for (int v = 0; v < N; v++) {
            of[v] = 0;
#pragma unroll
            for (int u = 0; u < M; u++)
                of[v] = fmaf(c.sum[v][u], c.sum[v][u], of[v]);
        }
        fold<sum_of>(of);
    }

    /* The largest magnitude of the finite elements in the first `rows` rows, which are inside of
     * C. */
    __device__ __forceinline__ void take_largest(const typename SHAPE::sums &c, int rows)
    {
#pragma unroll
        for (int v = 0; v < N; v++) {
            of[v] = 0;
#pragma unroll
            for (int u = 0; u < M; u++) {
                const float size = fabsf(c.sum[v][u]);
                if (simt_offset(u, SHAPE::RUN, SIMT_LANES_M) < rows && size <= FLT_MAX)
                    of[v] = fmaxf(of[v], size);
            }
        }
        fold<larger_of>(of);
    }
};

/* The peaks of a warp.  They stay in global memory, since more live registers would slow down the
 * multiply-adds. */
template <class SHAPE>
class warp_peaks
{
    static constexpr int MINE = peak_numbers<SHAPE>::MINE;
    static constexpr float LEAST =
        1e-30f; /* in a larger sum, squares that have underflowed are negligible */

    const product<float> &g;
    const int64_t i0, j0; /* the thread's first row and column */

    /* The i-th column whose peak this thread keeps. */
    __device__ __forceinline__ int64_t column(int i) const
    {
        const unsigned lane = threadIdx.x % 32;
        const int first = (lane / 8 % 2 * 4 + lane / 4 % 2 * 2 + lane / 2 % 2) * MINE;
        return j0 + simt_offset(first + i, SHAPE::RUN, SIMT_LANES_N);
    }

    __device__ __forceinline__ int *peak(int i) const
    {
        return reinterpret_cast<int *>(&g.report.norms[i0 / PEAK_ROWS * g.report.ld + column(i)]);
    }

    __device__ __forceinline__ bool wanted() const
    {
        return g.report.norms != nullptr && i0 / PEAK_ROWS * PEAK_ROWS < g.m;
    }

  public:
    __device__ __forceinline__ warp_peaks(const product<float> &g, int64_t i0, int64_t j0)
        : g(g), i0(i0), j0(j0)
    {
        if (!wanted() || g.report.grow)
            return;
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (column(i) < g.n)
                *peak(i) = 0;
    }

    /* Update the peaks with the current sums.  Where squares are out of range, or some sums are not
     * finite or outside of C, bound the norm by sqrt(PEAK_ROWS) times the largest magnitude. */
    __device__ __forceinline__ void update(const typename SHAPE::sums &c) const
    {
        peak_numbers<SHAPE> q;
        if (!wanted())
            return;
        q.take_squares(c);
        const int rows = (int)min(g.m - i0, (int64_t)PEAK_ROWS);
        bool in_range = simt_offset(SHAPE::EACH_M - 1, SHAPE::RUN, SIMT_LANES_M) < rows;
#pragma unroll
        for (int i = 0; i < MINE; i++)
            in_range &= (q.of[i] >= LEAST && q.of[i] <= FLT_MAX) || column(i) >= g.n;
        const bool squares = __all_sync(0xffffffff, in_range);
        if (!squares)
            q.take_largest(c, rows);
            /* The bits of floats that are not negative compare like integers. */
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (column(i) < g.n)
                atomicMax(peak(i),
                          __float_as_int(squares ? 1.00001f * sqrtf(q.of[i]) : 8 * q.of[i]));
    }
};
