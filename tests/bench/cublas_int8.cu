/* Products in residues whose products of bytes are cuBLAS's, plane by plane, with the same blocks
 * of k: conversions and reconstruction are those of kernels/ozaki_cuda.cu.  A library that
 * gemm_bench takes as a rival: it exports products by cuBLAS's names.
 *
 *     MODULI=14 gemm_bench -a cublas,ozaki:14,build/tests/bench/libcublas_int8.so -y d
 *
 * Without MODULI as many as suit the type.  alpha is 1, and beta 0 or 1. */
#include <cstdlib>
#include <cublas_v2.h>

#include "cuda_launch.h"
#include "launch.cuh"
#include "ozaki_product.cuh"

namespace
{

/* Memory of the device that grows and is never given back. */
struct memory {
    void *at = nullptr;
    size_t bytes = 0;

    bool holds(size_t wanted)
    {
        if (wanted <= bytes)
            return true;
        cudaFree(at);
        at = nullptr;
        bytes = cudaMalloc(&at, wanted) == cudaSuccess ? wanted : 0;
        if (bytes == 0)
            cudaGetLastError(); /* clear it */
        return bytes > 0;
    }
};

memory workspace, sums;
cublasHandle_t cublas; /* of the call in progress */

constexpr int THREADS = 256;

/* Four neighbours in a column a thread; m is a multiple of OZAKI_TILE. */
__global__ void reduce(residues_out out, int q, const int4 *of)
{
    const int64_t at = blockIdx.x * (int64_t)THREADS + threadIdx.x, rows = out.m / 4;
    if (at >= rows * out.n)
        return;
    const int4 four = of[at];
    const int neighbours[4] = {four.x, four.y, four.z, four.w};
    out.put(q, at / rows, at % rows * 4, neighbours);
}

} // namespace

static cudaError_t to_residues(const residues *moduli, const ozaki_planes *all, bool,
                               cudaStream_t stream)
{
    const ozaki_planes &p = *all;
    const int one = 1, zero = 0, m = (int)p.m, n = (int)p.n, k = (int)p.k;
    const int planes = ozaki_plane_count(moduli);
    if (!sums.holds((size_t)(p.m * p.n) * sizeof(int)))
        return cudaErrorMemoryAllocation;
    for (int q = 0; q < planes; q++) {
        if (cublasGemmEx(cublas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, p.a + q * p.m * p.k,
                         CUDA_R_8I, k, p.b + q * p.n * p.k, CUDA_R_8I, k, &zero, sums.at,
                         CUDA_R_32I, m, CUBLAS_COMPUTE_32I,
                         CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
            return cudaErrorUnknown;
        const unsigned blocks = (unsigned)((p.m / 4 * p.n + THREADS - 1) / THREADS);
        reduce<<<blocks, THREADS, 0, stream>>>(residues_of(*moduli, p), q, (const int4 *)sums.at);
    }
    return cudaGetLastError();
}

static const kernel_code code = {nullptr, to_residues, nullptr, false};

static cublasStatus_t multiply(cublasHandle_t handle, struct gemm g)
{
    static kernel own;
    static residues moduli;
    const char *given = getenv("MODULI");
    const int count = given ? atoi(given) : ozaki_moduli(g.type, false);
    cudaStream_t stream;
    if (count < RESIDUES_LEAST || count > RESIDUES_MOST || g.alpha != 1 ||
        (g.beta != 0 && g.beta != 1))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const auto part = ozaki_part(count, false, SIZE_MAX, g.m, g.n, g.k);
    const int64_t steps = g.k < OZAKI_BLOCK ? g.k : (int64_t)OZAKI_BLOCK;
    if (!workspace.holds(ozaki_workspace(count, false, part.rows, part.cols, steps)))
        return CUBLAS_STATUS_ALLOC_FAILED;
    struct ozaki o = {};
    residues_make(count, false, &moduli);
    o.residues = &moduli;
    own.code = &code;
    o.kernel = &own;
    o.workspace = workspace.at;
    o.bytes = workspace.bytes;
    o.cols = g.n;
    cublas = handle;
    if (cublasGetStream(handle, &stream) != CUBLAS_STATUS_SUCCESS ||
        ozaki_cuda(&g, &o, stream) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
static cublasStatus_t multiply(cublasHandle_t handle, scalar type, cublasOperation_t op_a,
                               cublasOperation_t op_b, int m, int n, int k, const T *alpha,
                               const T *a, int lda, const T *b, int ldb, const T *beta, T *c,
                               int ldc)
{
    struct gemm g = {};
    g.type = type;
    g.trans_a = op_a != CUBLAS_OP_N;
    g.trans_b = op_b != CUBLAS_OP_N;
    g.m = m;
    g.n = n;
    g.k = k;
    g.alpha = *alpha;
    g.beta = *beta;
    g.a = a;
    g.b = b;
    g.c = c;
    g.lda = lda;
    g.ldb = ldb;
    g.ldc = ldc;
    return multiply(handle, g);
}

extern "C" cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const double *alpha, const double *a, int lda,
                                         const double *b, int ldb, const double *beta, double *c,
                                         int ldc)
{
    return multiply(handle, SCALAR_DOUBLE, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                    ldc);
}

extern "C" cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const float *alpha, const float *a, int lda,
                                         const float *b, int ldb, const float *beta, float *c,
                                         int ldc)
{
    return multiply(handle, SCALAR_FLOAT, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
