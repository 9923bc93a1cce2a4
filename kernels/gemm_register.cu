/* Algorithm 2, register: each thread computes a small square of C in registers.
 *
 * The idea: a thread that holds EACH rows and EACH columns makes EACH * EACH multiply-adds from 2
 * EACH shared loads, where one element a thread made one from two.  A thread's rows (and columns)
 * lie ACROSS apart, not side by side, so that the threads of a warp touch neighbouring rows: no
 * bank conflicts in shared memory, and whole lines of C. */
#include "gemm_common.cuh"

template <typename T, bool TRANS_A, bool TRANS_B, int ACROSS, int EACH, int STEP>
__global__ void __launch_bounds__(ACROSS *ACROSS) registers(const product<T> g)
{
    constexpr int SIDE = ACROSS * EACH, THREADS = ACROSS * ACROSS;
    __shared__ staged<T, SIDE, STEP> piece_a, piece_b;
    const origin tile = tile_origin<SIDE, SIDE>(g.m);
    const int x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
    share<T, EACH, ACROSS, EACH, ACROSS, 1> c;

    c.start(g, tile.i + x, tile.j + y);
    for (int64_t p0 = 0; p0 < g.k; p0 += STEP) {
        stage<THREADS>(piece_a, operand_a<TRANS_A>(g), tile.i, p0);
        stage<THREADS>(piece_b, operand_b<TRANS_B>(g), tile.j, p0);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < STEP; p++)
            c.multiply_row(&piece_a.at[p][x], &piece_b.at[p][y]);
        __syncthreads();
    }
    c.finish(g, tile.i + x, tile.j + y);
}

struct register_family {
    static constexpr int ACROSS = 16, EACH = 4, TILE_M = ACROSS * EACH, TILE_N = ACROSS * EACH;
    static constexpr int THREADS = ACROSS * ACROSS;
    template <typename T, bool TRANS_A, bool TRANS_B>
    static auto function()
    {
        return registers<T, TRANS_A, TRANS_B, ACROSS, EACH, GEMM_QUANTUM>;
    }
};

cudaError_t gemm_register(const struct gemm *gemm, cudaStream_t stream)
{
    return launch<register_family>(gemm, stream);
}
