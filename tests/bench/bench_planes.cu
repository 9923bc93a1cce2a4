/* The kernels for products of bytes (kernels/ozaki_product.cuh) alone, beside cuBLAS's.
 *
 *     bench_planes [MODULI]
 *
 * Prints, for several m x n x k, the median rate of each kernel in turns, over planes of all moduli
 * with random bytes, and whether all kernels gave the same residues.  cuBLAS computes sums alone,
 * plane by plane, which it does not reduce. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <vector>

#include "ozaki_product.cuh"

constexpr int REPEAT = 5, MODULI = 14, THREADS = 256, BLOCKS = 1024;

static void require(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "bench_planes: %s failed\n", what);
        exit(1);
    }
}

__global__ void fill(int8_t *bytes, int64_t count, uint64_t seed)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count; i += BLOCKS * THREADS)
        bytes[i] = (int8_t)((i * 0x9E3779B97F4A7C15u + seed) * 0xBF58476D1CE4E5B9u >> 40) / 2;
}

__global__ void count_different(const int8_t *a, const int8_t *b, int64_t count,
                                unsigned long long *different)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count; i += BLOCKS * THREADS)
        if (a[i] != b[i])
            atomicAdd(different, 1);
}

template <typename T>
static T *on_device(int64_t count)
{
    void *memory = nullptr;
    require(cudaMalloc(&memory, (size_t)count * sizeof(T)) == cudaSuccess, "cudaMalloc");
    return static_cast<T *>(memory);
}

enum way { WGMMA, MMA, CUBLAS, WAYS };
static const char *const names[WAYS] = {"wgmma", "mma.sync", "cuBLAS"};

struct bench {
    residues moduli;
    ozaki_planes planes;
    int *sums; /* of one plane, by cuBLAS */
    cublasHandle_t cublas;
};

static void multiply(const bench &b, way which)
{
    const ozaki_planes &p = b.planes;
    const int one = 1, zero = 0, m = (int)p.m, n = (int)p.n, k = (int)p.k;
    if (which == WGMMA)
        require(code_wgmma.to_residues(&b.moduli, &p, false, nullptr) == cudaSuccess, "wgmma");
    if (which == MMA)
        require(code_mma.to_residues(&b.moduli, &p, false, nullptr) == cudaSuccess, "mma.sync");
    for (int q = 0; q < b.moduli.count && which == CUBLAS; q++)
        require(cublasGemmEx(b.cublas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, p.a + q * p.m * p.k,
                             CUDA_R_8I, k, p.b + q * p.n * p.k, CUDA_R_8I, k, &zero, b.sums,
                             CUDA_R_32I, m, CUBLAS_COMPUTE_32I,
                             CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS,
                "cublasGemmEx");
}

static float milliseconds(const bench &b, way which)
{
    cudaEvent_t begin, end;
    float ms = 0;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventRecord(begin);
    multiply(b, which);
    cudaEventRecord(end);
    require(cudaEventSynchronize(end) == cudaSuccess, names[which]);
    cudaEventElapsedTime(&ms, begin, end);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return ms;
}

/* Residues that are not the same by wgmma and by mma.sync. */
static unsigned long long differences(const bench &b)
{
    const int64_t count = b.moduli.count * b.planes.m * b.planes.n;
    unsigned long long *different = on_device<unsigned long long>(1), found = 0;
    bench other = b;
    other.planes.c = on_device<int8_t>(count);
    multiply(b, WGMMA);
    multiply(other, MMA);
    cudaMemset(different, 0, sizeof *different);
    count_different<<<BLOCKS, THREADS>>>(b.planes.c, other.planes.c, count, different);
    require(cudaMemcpy(&found, different, sizeof found, cudaMemcpyDefault) == cudaSuccess,
            "comparing");
    cudaFree(other.planes.c);
    cudaFree(different);
    return found;
}

static void run(bench b, int64_t m, int64_t n, int64_t k)
{
    const int64_t count = b.moduli.count;
    std::vector<float> times[WAYS];
    b.planes.m = m;
    b.planes.n = n;
    b.planes.k = k;
    b.planes.a = on_device<int8_t>(count * m * k);
    b.planes.b = on_device<int8_t>(count * n * k);
    b.planes.c = on_device<int8_t>(count * m * n);
    b.sums = on_device<int>(m * n);
    fill<<<BLOCKS, THREADS>>>(b.planes.a, count * m * k, 1);
    fill<<<BLOCKS, THREADS>>>(b.planes.b, count * n * k, 2);
    const unsigned long long different = differences(b);
    for (int i = 0; i < REPEAT; i++)
        for (int which = 0; which < WAYS; which++)
            times[which].push_back(milliseconds(b, (way)which));
    printf("%5d x %5d x %5d:", (int)m, (int)n, (int)k);
    for (int which = 0; which < WAYS; which++) {
        std::sort(times[which].begin(), times[which].end());
        const double ms = times[which][REPEAT / 2];
        printf("  %s %.3f ms, %.0f TOPS", names[which], ms,
               2e-9 * (double)(count * m * n * k) / ms);
    }
    printf("  different: %llu\n", different);
    cudaFree(b.planes.a);
    cudaFree(b.planes.b);
    cudaFree(b.planes.c);
    cudaFree(b.sums);
    require(different == 0, "the same residues by both kernels");
}

int main(int argc, char **argv)
{
    static const int64_t sizes[][3] = {{384, 128, 8192},
                                       {640, 1152, 1024},
                                       {8192, 8192, 8192},
                                       {16384, 8192, 8192},
                                       {24576, 8192, 8192}};
    const int moduli = argc > 1 ? atoi(argv[1]) : MODULI;
    bench b = {};
    require(moduli >= RESIDUES_LEAST && moduli <= RESIDUES_MOST, "a number of moduli from 6 to 18");
    residues_make(moduli, false, &b.moduli);
    require(cublasCreate(&b.cublas) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
    for (const auto &size : sizes)
        run(b, size[0], size[1], size[2]);
    cublasDestroy(b.cublas);
}
