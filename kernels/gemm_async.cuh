/* The common parts of the kernels with asynchronous copies: a ring of stages in shared memory, the
 * copies to it for every transposition and alignment, and the launch. */
#pragma once

#include "gemm_common.cuh"
#include "ptx.cuh"

/* One thread's share of the copies of an operand to shared memory, step after step along k.
 *
 * If x is contiguous in memory, rows of the piece are too, and a copy moves RUN elements: 16 bytes
 * if the alignment allows, else one element.  If k is contiguous (K_MAJOR), single elements are
 * copied (RUN 1), which transposes them; 8 lanes run along k and the others along x, which avoids
 * both partial sectors of global memory and bank conflicts.  Elements outside of the operand are
 * not copied; their products only enter sums outside of C. */
template <typename T, int THREADS, int SIDE, int STEP, bool K_MAJOR, int RUN>
class loader
{
    static constexpr int ALONG_P = K_MAJOR ? 8 : THREADS * RUN / SIDE, ALONG_X = THREADS / ALONG_P;
    static constexpr int TIMES_P = STEP / ALONG_P, TIMES_X = SIDE / (ALONG_X * RUN);
    static_assert(TIMES_P * ALONG_P == STEP && TIMES_X * ALONG_X * RUN == SIDE, "whole copies");

    static constexpr int ROW = sizeof(staged_wide<T, SIDE, STEP>) / sizeof(T) / STEP;

    const piece_place at; /* of the thread's first copy */
    const int width;      /* columns of the piece inside the operand */
    const int64_t ld;
    const T *next; /* source of the first copy of the next step */

    template <class WANTED>
    __device__ __forceinline__ void copy(T *to, WANTED wanted) const
    {
        const T *column = next;
#pragma unroll
        for (int i = 0; i < TIMES_X; i++) {
            const T *from = column;
#pragma unroll
            for (int q = 0; q < TIMES_P; q++) {
                const int dx = i * ALONG_X * RUN, dp = q * ALONG_P;
                cp_async_if<RUN * sizeof(T)>(to + dp * ROW + dx, from,
                                             wanted(at.x + dx, at.p + dp));
                from += K_MAJOR ? ALONG_P : ALONG_P * ld;
            }
            column += K_MAJOR ? ALONG_X * ld : ALONG_X * RUN;
        }
    }

  public:
    __device__ __forceinline__ loader(const operand<T, K_MAJOR> &from, int64_t x0)
        : at(simt_piece(K_MAJOR, SIDE, ALONG_P, RUN, threadIdx.x)),
          width((int)min(from.width - x0, (int64_t)SIDE)), ld(from.ld),
          next(from.memory + from.index(x0 + at.x, at.p))
    {
    }

    /* Issue the copies of the next step; none unless `all`. */
    __device__ __forceinline__ void issue(staged_wide<T, SIDE, STEP> &piece, bool all)
    {
        const int inside = all ? width : 0;
        copy(&piece.at[at.p][at.x], [&](int at_x, int) { return at_x < inside; });
        next += K_MAJOR ? STEP : STEP * ld;
    }

    /* Issue the copies of the partial step at the end of k, of which `depth` rows are inside; the
     * source has advanced `ahead` steps beyond it. */
    __device__ __forceinline__ void issue_remainder(staged_wide<T, SIDE, STEP> &piece, int ahead,
                                                    int depth)
    {
        next -= ahead * (K_MAJOR ? STEP : STEP * ld);
        copy(&piece.at[at.p][at.x],
             [&](int at_x, int at_p) { return at_x < width && at_p < depth; });
    }
};

/* The shape of a block with a ring of STAGES pairs of pieces and compact warp tiles. */
template <typename T, class S>
struct async_shape : S {
    static constexpr int STAGES = 4, RUN = 16 / sizeof(T);
    static constexpr int BLOCKS = 256 / S::THREADS; /* per SM */
    static constexpr int WARP_M = SIMT_LANES_M * S::EACH_M, WARP_N = SIMT_LANES_N * S::EACH_N;
    static constexpr int WARPS_M = S::TILE_M / WARP_M;
    struct pieces {
        staged_wide<T, S::TILE_M, S::STEP> a;
        staged_wide<T, S::TILE_N, S::STEP> b;
    };
    static constexpr int SHARED = STAGES * (int)sizeof(pieces);
    using sums = thread_tile<T, S::EACH_M, SIMT_LANES_M, S::EACH_N, SIMT_LANES_N, RUN>;
};

/* The prologue: issue the copies of all stages of the ring but the last. */
template <int STAGES, class LOADER_A, class LOADER_B, class PIECES, typename STEPS>
__device__ __forceinline__ void fill_ring(LOADER_A &a, LOADER_B &b, PIECES *ring, STEPS steps)
{
    for (int stage = 0; stage < STAGES - 1; stage++) {
        a.issue(ring[stage].a, stage < steps);
        b.issue(ring[stage].b, stage < steps);
        cp_async_commit();
    }
}

/* The remainder of k beyond the last whole step, if any: copied and multiplied without overlap. */
template <class TILE, class LOADER_A, class LOADER_B, class PIECES>
__device__ __forceinline__ void multiply_remainder(TILE &c, LOADER_A &a, LOADER_B &b,
                                                   PIECES &pieces, int x, int y, int ahead,
                                                   int depth)
{
    if (depth == 0)
        return;
    a.issue_remainder(pieces.a, ahead, depth);
    b.issue_remainder(pieces.b, ahead, depth);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
#pragma unroll 1
    for (int p = 0; p < depth; p++)
        c.multiply_row(&pieces.a.at[p][x], &pieces.b.at[p][y]);
}

/* Whether all 16-byte copies of an operand with `rows` stored rows are aligned and inside of it. */
template <typename T>
bool wide_copies(const void *memory, int64_t ld, int64_t rows)
{
    const int run = 16 / sizeof(T);
    return (uintptr_t)memory % 16 == 0 && ld % run == 0 && rows % run == 0;
}

/* RUN of a loader: always 1 if k is contiguous. */
template <typename T, bool K_MAJOR, bool WIDE>
constexpr int loader_run = WIDE && !K_MAJOR ? 16 / sizeof(T) : 1;

/* Like launch_typed, with 16-byte copies where operands are aligned.  FAMILY<WIDE_A, WIDE_B> uses
 * them for A, for B, if that operand is contiguous along its side of C. */
template <typename T, template <bool, bool> class FAMILY>
cudaError_t launch_async(const struct gemm *gemm, cudaStream_t stream)
{
    const cudaError_t status = require_capability(8);
    if (status != cudaSuccess)
        return status;
    const bool wide_a = wide_copies<T>(gemm->a, gemm->lda, gemm->m);
    const bool wide_b = wide_copies<T>(gemm->b, gemm->ldb, gemm->n);
    if (wide_a)
        return wide_b ? launch_typed<FAMILY<true, true>, T>(gemm, stream)
                      : launch_typed<FAMILY<true, false>, T>(gemm, stream);
    return wide_b ? launch_typed<FAMILY<false, true>, T>(gemm, stream)
                  : launch_typed<FAMILY<false, false>, T>(gemm, stream);
}
