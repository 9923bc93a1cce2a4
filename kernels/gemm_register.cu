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
    const int64_t i0 = tile.i + x, j0 = tile.j + y;
    T sum[EACH][EACH];

    /* Every index into sum is a constant once the loops are unrolled: it stays in registers. */
#pragma unroll
    for (int v = 0; v < EACH; v++)
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            int64_t i = i0 + u * ACROSS, j = j0 + v * ACROSS;
            sum[v][u] = i < g.m && j < g.n ? sum_start(g, g.c + i + j * g.ldc) : T(0);
        }

    for (int64_t p0 = 0; p0 < g.k; p0 += STEP) {
        stage<THREADS>(piece_a, operand_a<TRANS_A>(g), tile.i, p0);
        stage<THREADS>(piece_b, operand_b<TRANS_B>(g), tile.j, p0);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < STEP; p++) {
            T a[EACH], b[EACH];
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                a[e] = piece_a.at[p][x + e * ACROSS];
                b[e] = piece_b.at[p][y + e * ACROSS];
            }
#pragma unroll
            for (int v = 0; v < EACH; v++)
#pragma unroll
                for (int u = 0; u < EACH; u++)
                    sum[v][u] = multiply_add(a[u], b[v], sum[v][u]);
        }
        __syncthreads();
    }

#pragma unroll
    for (int v = 0; v < EACH; v++)
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            int64_t i = i0 + u * ACROSS, j = j0 + v * ACROSS;
            if (i < g.m && j < g.n)
                sum_finish(g, sum[v][u], g.c + i + j * g.ldc);
        }
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
