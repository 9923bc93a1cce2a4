/* Doubles in residues on one GPU beside cuBLAS and, where the build has it, GEMMul8: how fast and
 * how accurate, in the same run.
 *
 *     bench_residues PHI MxNxK...
 *
 * All take turns on the same operands, r exp(PHI g) with r uniform in (-1/2, 1/2) and g normal.
 * Prints the median rate of each, its share of cuBLAS's as the median of the pairs, and the
 * largest error of SAMPLED x SAMPLED elements in units of u |A||B|, against sums in
 * long double.
 *
 * `make GEMMUL8=FOLDER build/tests/bench/bench_residues` links FOLDER/lib/libgemmul8.a of
 * https://github.com/RIKEN-RCCS/GEMMul8. */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <functional>
#include <string>
#include <vector>
#ifdef WITH_GEMMUL8
#include <gemmul8.hpp>
#endif

#include "cuda_launch.h"
#include "mix.h"

extern "C" {
#include "quantity.h"
}

constexpr int REPEAT = 7, SAMPLED = 64;

static void require(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "bench_residues: %s failed\n", what);
        exit(1);
    }
}

static void *on_device(size_t bytes)
{
    void *memory = nullptr;
    require(cudaMalloc(&memory, bytes) == cudaSuccess, "cudaMalloc");
    return memory;
}

/* C := A B of column-major matrices without gaps, on the host and on the device. */
struct product {
    int64_t m, n, k;
    std::vector<double> a, b;
    double *device_a, *device_b, *device_c;
};

/* Uniform in (0, 1). */
static double uniform(uint64_t seed, uint64_t index)
{
    return ((double)(mix_number(mix_bits(seed), index) >> 12) + 0.5) * 0x1p-52;
}

static void fill(std::vector<double> &numbers, int64_t count, double phi, uint64_t seed)
{
    numbers.resize((size_t)count);
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++) {
        const uint64_t at = 3 * (uint64_t)i;
        const double g = sqrt(-2 * log(uniform(seed, at))) * cos(2 * M_PI * uniform(seed, at + 1));
        numbers[(size_t)i] = (uniform(seed, at + 2) - 0.5) * exp(phi * g);
    }
}

static double *copied(const std::vector<double> &numbers)
{
    const size_t bytes = numbers.size() * sizeof(double);
    void *memory = on_device(bytes);
    require(cudaMemcpy(memory, numbers.data(), bytes, cudaMemcpyDefault) == cudaSuccess, "a copy");
    return (double *)memory;
}

static product product_make(const int64_t size[3], double phi)
{
    product p = {size[0], size[1], size[2], {}, {}, nullptr, nullptr, nullptr};
    fill(p.a, p.m * p.k, phi, 1);
    fill(p.b, p.k * p.n, phi, 2);
    p.device_a = copied(p.a);
    p.device_b = copied(p.b);
    p.device_c = (double *)on_device((size_t)(p.m * p.n) * sizeof(double));
    return p;
}

static void product_free(product &p)
{
    cudaFree(p.device_a);
    cudaFree(p.device_b);
    cudaFree(p.device_c);
}

/* The largest error of the C on the device. */
static double largest_error(const product &p)
{
    std::vector<double> column((size_t)p.m);
    double most = 0;
    for (int64_t y = 0; y < SAMPLED; y++) {
        const int64_t j = y * p.n / SAMPLED;
        require(cudaMemcpy(column.data(), p.device_c + j * p.m, (size_t)p.m * sizeof(double),
                           cudaMemcpyDefault) == cudaSuccess,
                "a copy");
#pragma omp parallel for reduction(max : most)
        for (int64_t x = 0; x < SAMPLED; x++) {
            const int64_t i = x * p.m / SAMPLED;
            long double sum = 0, magnitude = 0;
            for (int64_t h = 0; h < p.k; h++) {
                const long double term =
                    (long double)p.a[(size_t)(i + h * p.m)] * p.b[(size_t)(h + j * p.k)];
                sum += term;
                magnitude += fabsl(term);
            }
            const long double error = fabsl(column[(size_t)i] - sum) / (0x1p-53L * magnitude);
            most = std::max(most, (double)error);
        }
    }
    return most;
}

struct rival {
    std::string name;
    std::function<void(const product &)> multiply; /* only enqueues, on the default stream */
};

static float milliseconds(const rival &r, const product &p)
{
    cudaEvent_t begin, end;
    float ms = 0;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventRecord(begin);
    r.multiply(p);
    cudaEventRecord(end);
    require(cudaEventSynchronize(end) == cudaSuccess, r.name.c_str());
    cudaEventElapsedTime(&ms, begin, end);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return ms;
}

static void multiply_cublas(cublasHandle_t cublas, const product &p)
{
    const double one = 1, zero = 0;
    require(cublasDgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, (int)p.m, (int)p.n, (int)p.k, &one,
                        p.device_a, (int)p.m, p.device_b, (int)p.k, &zero, p.device_c,
                        (int)p.m) == CUBLAS_STATUS_SUCCESS,
            "cublasDgemm");
}

static void multiply_ozaki(const residues &moduli, void *workspace, size_t bytes, const product &p)
{
    struct gemm g = {};
    struct ozaki o = {};
    g.type = SCALAR_DOUBLE;
    g.m = p.m;
    g.n = p.n;
    g.k = p.k;
    g.alpha = 1;
    g.a = p.device_a;
    g.b = p.device_b;
    g.c = p.device_c;
    g.lda = g.ldc = p.m;
    g.ldb = p.k;
    o.residues = &moduli;
    o.workspace = workspace;
    o.bytes = bytes;
    o.cols = p.n;
    require(ozaki_cuda(&g, &o, nullptr) == cudaSuccess, "ozaki");
}

#ifdef WITH_GEMMUL8
static void multiply_gemmul8(cublasHandle_t cublas, int moduli, bool fast, void *workspace,
                             const product &p)
{
    const double one = 1, zero = 0;
    gemmul8::gemm<double>(cublas, CUBLAS_OP_N, CUBLAS_OP_N, (size_t)p.m, (size_t)p.n, (size_t)p.k,
                          &one, p.device_a, (size_t)p.m, p.device_b, (size_t)p.k, &zero, p.device_c,
                          (size_t)p.m, (unsigned)moduli, fast, workspace);
}
#endif

/* Measures all rivals in turns; the first one is the reference. */
static void measure(const std::vector<rival> &rivals, const product &p)
{
    std::vector<std::vector<float>> times(rivals.size()), shares(rivals.size());
    std::vector<double> errors;
    for (const rival &r : rivals) {
        r.multiply(p);
        errors.push_back(largest_error(p));
    }
    for (int i = 0; i < REPEAT; i++)
        for (size_t r = 0; r < rivals.size(); r++) {
            const float reference = milliseconds(rivals[0], p);
            times[r].push_back(milliseconds(rivals[r], p));
            shares[r].push_back(reference / times[r].back());
        }
    for (size_t r = 0; r < rivals.size(); r++) {
        std::sort(times[r].begin(), times[r].end());
        std::sort(shares[r].begin(), shares[r].end());
        const double ms = times[r][REPEAT / 2];
        printf("%6d x %6d x %6d  %-18s %8.2f ms  %6.1f TFLOP/s  %5.3f of cuBLAS  error %.3g\n",
               (int)p.m, (int)p.n, (int)p.k, rivals[r].name.c_str(), ms,
               2e-9 * (double)p.m * (double)p.n * (double)p.k / ms, shares[r][REPEAT / 2],
               errors[r]);
        fflush(stdout);
    }
}

static void run(cublasHandle_t cublas, const int64_t size[3], double phi)
{
    const int counts[] = {13, 14, 15};
    static residues moduli[3];
    product p = product_make(size, phi);
    const auto part = ozaki_part(counts[2], false, SIZE_MAX, p.m, p.n, p.k);
    size_t bytes = ozaki_workspace(counts[2], false, part.rows, part.cols,
                                   std::min(p.k, (int64_t)OZAKI_BLOCK));
#ifdef WITH_GEMMUL8
    bytes = std::max(bytes, gemmul8::workSize<false>((size_t)p.m, (size_t)p.n, (size_t)p.k,
                                                     (unsigned)counts[2]));
#endif
    void *workspace = on_device(bytes);
    std::vector<rival> rivals = {{"cuBLAS", [=](const product &q) { multiply_cublas(cublas, q); }}};
    for (int i = 0; i < 3; i++) {
        const residues *of = &moduli[i];
        residues_make(counts[i], false, &moduli[i]);
        rivals.push_back({"ozaki:" + std::to_string(counts[i]),
                          [=](const product &q) { multiply_ozaki(*of, workspace, bytes, q); }});
#ifdef WITH_GEMMUL8
        for (const bool fast : {true, false})
            rivals.push_back(
                {"GEMMul8 " + std::to_string(counts[i]) + (fast ? " fast" : " accurate"),
                 [=](const product &q) {
                     multiply_gemmul8(cublas, counts[i], fast, workspace, q);
                 }});
#endif
    }
    measure(rivals, p);
    cudaFree(workspace);
    product_free(p);
}

int main(int argc, char **argv)
{
    cublasHandle_t cublas = nullptr;
    require(argc > 2, "usage: bench_residues PHI MxNxK...: reading the arguments");
    require(cublasCreate(&cublas) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
    for (int i = 2; i < argc; i++) {
        int64_t size[3];
        require(quantity_parse_extents(argv[i], 3, size), "reading MxNxK");
        run(cublas, size, atof(argv[1]));
    }
    cublasDestroy(cublas);
}
