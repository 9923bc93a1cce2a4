/* Algorithm 1, shared: a block computes a square tile of C from pieces of A and B in shared memory.
 *
 * The idea: the threads of a block need the same rows of A and columns of B.  They load a piece of
 * each together, once and coalesced, and then all read it from shared memory: global traffic falls
 * by the side of the tile.  Still one element a thread, so two shared loads for one multiply-add
 * remain. */
#include "gemm_common.cuh"

template <typename T, bool TRANS_A, bool TRANS_B, int SIDE, int STEP>
__global__ void __launch_bounds__(SIDE *SIDE) shared(const product<T> g)
{
    __shared__ staged<T, SIDE, STEP> piece_a, piece_b;
    const origin tile = tile_origin<SIDE, SIDE>(g.m);
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    const int64_t i = tile.i + x, j = tile.j + y;
    const bool inside = i < g.m && j < g.n;

    /* Threads outside of C have no element but help to load. */
    T *c = g.c + i + j * g.ldc;
    T sum = inside ? sum_start(g, c) : T(0);
    for (int64_t p0 = 0; p0 < g.k; p0 += STEP) {
        stage<SIDE * SIDE>(piece_a, operand_a<TRANS_A>(g), tile.i, p0);
        stage<SIDE * SIDE>(piece_b, operand_b<TRANS_B>(g), tile.j, p0);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < STEP; p++)
            sum = multiply_add(piece_a.at[p][x], piece_b.at[p][y], sum);
        __syncthreads();
    }
    if (inside)
        sum_finish(g, sum, c);
}

struct shared_family {
    static constexpr int SIDE = 32, TILE_M = SIDE, TILE_N = SIDE, THREADS = SIDE * SIDE;
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return shared<T, TRANS_A, TRANS_B, SIDE, GEMM_QUANTUM>;
    }
};

cudaError_t gemm_shared(const struct gemm *gemm, cudaStream_t stream)
{
    return launch<shared_family>(gemm, stream);
}
