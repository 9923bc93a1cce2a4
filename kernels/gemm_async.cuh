/* What the kernels with asynchronous copies share: a ring of pieces in shared memory, how operands
 * get there in every transposition and alignment, and how such a kernel is launched. */
#ifndef DGEMM_OOC_GEMM_ASYNC_CUH
#define DGEMM_OOC_GEMM_ASYNC_CUH

#include "copy_async.cuh"
#include "gemm_common.cuh"

/* A thread's part in bringing an operand, step after step along k.
 *
 * Where neighbours in memory are neighbours in a row of the piece, copies move 16 bytes if
 * alignment allows, one element otherwise.  Neighbours along k go to different rows: single
 * elements, which the copy itself transposes; 8 lanes follow k and the others x, so that neither
 * the lines of memory nor the banks of shared memory are met twice. */
template <typename T, int THREADS, int SIDE, int STEP, bool DEEP>
class courier {
    const operand<T, DEEP> from;
    const bool wide;
    const int width; /* of the piece, inside the operand */
    const T *next;   /* the thread's first element of the coming step */

    /* The threads lie ALONG_X by ALONG_P, each with RUN elements of a row. */
    template <int RUN>
    struct walk {
        static constexpr int ALONG_P = DEEP ? 8 : THREADS * RUN / SIDE;
        static constexpr int ALONG_X = THREADS / ALONG_P;

        __device__ __forceinline__ static int x()
        {
            return (DEEP ? threadIdx.x / ALONG_P : threadIdx.x % ALONG_X) * RUN;
        }

        __device__ __forceinline__ static int p()
        {
            return DEEP ? threadIdx.x % ALONG_P : threadIdx.x / ALONG_X;
        }
    };

    template <int RUN, bool WHOLE>
    __device__ __forceinline__ void copy(staged_wide<T, SIDE, STEP> &piece, int depth) const
    {
        using w = walk<RUN>;
        const int x0 = w::x(), p0 = w::p();
#pragma unroll
        for (int x = 0; x < SIDE; x += w::ALONG_X * RUN)
#pragma unroll
            for (int p = 0; p < STEP; p += w::ALONG_P) {
                int valid = WHOLE ? RUN : p0 + p < depth ? min(width - x0 - x, RUN) : 0;
                if (WHOLE || valid > 0)
                    copy_async<RUN * sizeof(T)>(&piece.at[p0 + p][x0 + x],
                                                next + from.index(x, p), valid * (int)sizeof(T));
            }
    }

    template <int RUN>
    __device__ __forceinline__ void copy(staged_wide<T, SIDE, STEP> &piece, int64_t left) const
    {
        if (width == SIDE && left >= STEP)
            copy<RUN, true>(piece, STEP);
        else
            copy<RUN, false>(piece, (int)min(left, (int64_t)STEP));
    }

  public:
    static constexpr int RUN = 16 / sizeof(T);

    /* For the pieces at x0. */
    __device__ __forceinline__ courier(const operand<T, DEEP> &operand, int64_t x0)
        : from(operand), wide(!DEEP && operand.aligned(RUN)),
          width((int)min(operand.width - x0, (int64_t)SIDE))
    {
        const int x = wide ? walk<RUN>::x() : walk<1>::x(), p = wide ? walk<RUN>::p() : walk<1>::p();
        next = from.memory + from.index(x0 + x, p);
    }

    /* Start the copies of the next step, of whose k `left` are inside. */
    __device__ __forceinline__ void send(staged_wide<T, SIDE, STEP> &piece, int64_t left)
    {
        if (wide)
            copy<RUN>(piece, left);
        else
            copy<1>(piece, left);
        next += from.index(0, STEP);
    }
};

/* The lanes of a warp, 8 by 4.  Lane ^ 1 is its neighbour along n and reads the same of A, lane ^ 2
 * its neighbour along m and reads the same of B: so shared memory serves half a warp at once. */
__host__ __device__ constexpr int lane_m(int lane)
{
    return lane / 2 % 8;
}

__host__ __device__ constexpr int lane_n(int lane)
{
    return lane % 2 + lane / 16 * 2;
}

/* One step: the thread's elements grow by the rows of two pieces, from row elements x and y on.
 * Nothing beyond k is touched; so it does not matter what lies there. */
template <class SHARE, typename T, int SIDE_A, int SIDE_B, int STEP>
__device__ __forceinline__ void multiply_pieces(SHARE &c, const staged_wide<T, SIDE_A, STEP> &a,
                                                const staged_wide<T, SIDE_B, STEP> &b, int x, int y,
                                                int64_t left)
{
    typename SHARE::factors f[2];
    if (left < STEP) {
#pragma unroll 1
        for (int p = 0; p < (int)left; p++) {
            f[0].load(&a.at[p][x], &b.at[p][y]);
            c.multiply(f[0]);
        }
        return;
    }
    f[0].load(&a.at[0][x], &b.at[0][y]);
#pragma unroll
    for (int p = 0; p < STEP; p++) {
        if (p + 1 < STEP)
            f[(p + 1) % 2].load(&a.at[p + 1][x], &b.at[p + 1][y]);
        c.multiply(f[p % 2]);
    }
}

/* As launch_typed, for kernels that keep `shared` bytes of dynamic shared memory. */
template <typename T, class KERNEL>
cudaError_t launch_async(const struct gemm *gemm, cudaStream_t stream)
{
    int device = 0, major = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess && major < 8)
        status = cudaErrorNoKernelImageForDevice;
    if (status != cudaSuccess)
        return status;
    return launch_typed<KERNEL, T>(gemm, stream, KERNEL::shared);
}

#endif
