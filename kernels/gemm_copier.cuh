/* Asynchronous copies of doubles from global to shared memory, bypassing the registers (cp.async,
 * sm_80 and later). */
#pragma once

#include "gemm_common.cuh"
#include "gemm_mma_maps.h"
#include "ptx.cuh"

/* One thread's share of the copies of an operand's pieces, along k.  THREADS threads copy a piece;
 * this one, `thread`, copies COPY doubles to every APART-th row of shared memory. */
template <int THREADS, int SIDE, bool K_MAJOR, int COPY>
struct copier {
    static constexpr int LINE = (K_MAJOR ? MMA_STEP : SIDE) / COPY, APART = THREADS / LINE;
    static constexpr int TURNS = SIDE * MMA_STEP / COPY / THREADS;
    static_assert(THREADS % LINE == 0 && TURNS * THREADS * COPY == SIDE * MMA_STEP, "whole turns");
    static_assert(APART % 8 == 0 || (!K_MAJOR && 8 % APART == 0),
                  "a turn moves by rows or flips chunks");

    const double *from; /* source of the first copy of the next piece */
    int64_t ld;
    unsigned place;  /* its byte in the piece */
    int x, p, width; /* its position; columns of the piece inside the operand */

    __device__ __forceinline__ copier(const operand<double, K_MAJOR> &op, int64_t x0, int thread)
    {
        const int line = thread / LINE, at = thread % LINE * COPY;
        x = K_MAJOR ? line : at;
        p = K_MAJOR ? at : line;
        place = mma_place(K_MAJOR, x, p);
        ld = op.ld;
        from = op.memory + (K_MAJOR ? p + (x0 + x) * ld : x0 + x + p * ld);
        width = (int)min(op.width - x0, (int64_t)SIDE);
    }

    /* Issue the copies of a piece.  WHOLE: all of it is inside of the operand; otherwise elements
     * outside become zeros. */
    template <bool WHOLE>
    __device__ __forceinline__ void turns(unsigned to, int depth)
    {
        const double *line = from;
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            const int rows = turn * APART;
            const int left_x = width - x - (K_MAJOR ? rows : 0),
                      left_p = depth - p - (K_MAJOR ? 0 : rows);
            const int inside = (K_MAJOR ? left_x : left_p) > 0 ? (K_MAJOR ? left_p : left_x) : 0;
            cp_async<8 * COPY>((to ^ rows % 8 * 16) + rows * MMA_ROW, line,
                               WHOLE ? 8 * COPY : 8 * max(0, min(inside, COPY)));
            line += APART * ld;
        }
    }

    /* Issue the copies of the next piece, whose first `depth` steps of k are inside of the
     * operand. */
    __device__ __forceinline__ void copy(unsigned piece, int depth)
    {
        if (width == SIDE && depth >= MMA_STEP)
            turns<true>(piece + place, depth);
        else
            turns<false>(piece + place, depth);
        from += K_MAJOR ? (int64_t)MMA_STEP : MMA_STEP * ld;
    }
};
