/* Products of planes by dp4a, four multiply-adds of bytes an instruction: for GPUs without tensor
 * cores for bytes, and to compare with.
 *
 * A block computes a tile of one plane, a thread 4 x 4 elements of it. */
#include "kernel.h"

#ifndef __cplusplus
const struct kernel kernel_dp4a = {
    GPU_KERNEL(dp4a), .rates[SCALAR_INT8] = {{1, CAPABILITY_ANY, 512}},
    .of_peak = 0.3, /* a guess */
};
#else
#include "launch.cuh"
#include "ozaki_product.cuh"
#include "ptx.cuh"

constexpr int ACROSS = 16, EACH = 4, TILE = ACROSS * EACH, THREADS = ACROSS * ACROSS;
constexpr int WORDS = 16; /* of four steps each, that are in shared memory at a time */

/* A piece of a plane: words of each row, whose stride spreads a warp's loads over the banks. */
struct staged_words {
    int at[TILE][WORDS + 1];
};

__device__ __forceinline__ void load(staged_words &to, const int8_t *rows, int64_t pitch)
{
    for (int word = threadIdx.x; word < TILE * WORDS; word += THREADS)
        to.at[word / WORDS][word % WORDS] =
            *reinterpret_cast<const int *>(rows + word / WORDS * pitch + word % WORDS * 4);
}

template <class OUT, bool SIGNED_A, bool SIGNED_B>
__global__ void __launch_bounds__(THREADS) multiply_dp4a(const OUT out, const byte_planes planes)
{
    __shared__ staged_words a, b;
    const int q = (int)blockIdx.z;
    const int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
    const int x = threadIdx.x % ACROSS * EACH, y = threadIdx.x / ACROSS * EACH;
    const int8_t *rows_a = planes.line_a(q, i0), *rows_b = planes.line_b(q, j0);
    int sum[EACH][EACH] = {};
    for (int64_t step = 0; step < planes.k; step += WORDS * 4) {
        load(a, rows_a + step, planes.pitch_a);
        load(b, rows_b + step, planes.pitch_b);
        __syncthreads();
        for (int word = 0; word < WORDS; word++)
            for (int v = 0; v < EACH; v++)
                for (int u = 0; u < EACH; u++)
                    sum[v][u] =
                        dp4a<SIGNED_A, SIGNED_B>(a.at[x + u][word], b.at[y + v][word], sum[v][u]);
        __syncthreads();
    }
    for (int v = 0; v < EACH; v++)
        out.put(q, j0 + y + v, i0 + x, sum[v]);
}

/* All of `planes` is padded. */
template <bool SIGNED_A, bool SIGNED_B, class OUT>
static cudaError_t start(const byte_planes &planes, const OUT &out, cudaStream_t stream)
{
    const dim3 grid((unsigned)(planes.m / TILE), (unsigned)(planes.n / TILE),
                    (unsigned)planes.count);
    return start_kernel(multiply_dp4a<OUT, SIGNED_A, SIGNED_B>, grid, THREADS, 0, stream, out,
                        planes);
}

static cudaError_t to_residues(const residues *moduli, const ozaki_planes *planes, bool,
                               cudaStream_t stream)
{
    return start<true, true>(planes_of(*moduli, *planes), residues_of(*moduli, *planes), stream);
}

static cudaError_t to_integers(const byte_planes *planes, const sums_out *out, bool,
                               cudaStream_t stream)
{
    return with_signs(*planes, [&](auto a, auto b) {
        return start<decltype(a)::value, decltype(b)::value>(*planes, *out, stream);
    });
}

const kernel_code code_dp4a = {nullptr, to_residues, to_integers, true};
#endif
