/* cuBLAS through dlopen.  The function types are those of the header at build time, the functions
 * those of the library found at run time: any major version with the 64-bit interface works.  A
 * library that takes the place of cuBLAS's products has them by the names of the 32-bit interface,
 * and may take all else from the cuBLAS that it was linked with. */
#include "kernel.h"

/* The workspace is what NVIDIA recommends on Hopper; with one that the caller sets, results are
 * reproducible. */
const struct kernel kernel_cublas = {
    .name = "cublas",
    .on_gpu = HAS_CUDA,
    .shapes = 1,
    .workspace = (size_t)32 << 20,
    .host_bytes = (size_t)76 << 20,
    .of_best = 1,
};

#ifdef HAVE_CUDA
#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_launch.h"
#include "error.h"
#include "gemm_cublas.h"

struct gemm_cublas {
    int index;
    const char *name; /* or the path of the library in its place, which is the caller's */
    cudaStream_t stream;
    void *workspace;
    cublasHandle_t handle;
    __typeof__(cublasCreate_v2) *create;
    __typeof__(cublasDestroy_v2) *destroy;
    __typeof__(cublasSetStream_v2) *set_stream;
    __typeof__(cublasSetWorkspace_v2) *set_workspace;
    __typeof__(cublasSetMathMode) *set_math_mode;
    __typeof__(cublasDgemm_v2_64) *dgemm;
    __typeof__(cublasSgemm_v2_64) *sgemm;
    __typeof__(cublasZgemm_v2_64) *zgemm;
    __typeof__(cublasCgemm_v2_64) *cgemm;
    __typeof__(cublasGetStatusString) *status_string;
    __typeof__(cublasDgemm_v2) *dgemm_of_library; /* null: none takes the place of cuBLAS's */
    __typeof__(cublasSgemm_v2) *sgemm_of_library;
};

#define QUOTE(x) #x
#define QUOTE_VALUE(x) QUOTE(x)

#define CUBLAS_MAJOR QUOTE_VALUE(CUBLAS_VER_MAJOR)

/* In the order of preference: first the version of the build, which the driver most likely
 * supports. */
static const char *const library_names[] = {
    ("libcublas.so." CUBLAS_MAJOR),
#ifdef CUBLAS_DIR
    (CUBLAS_DIR "/libcublas.so." CUBLAS_MAJOR),
#endif
    "libcublas.so.13",
    "libcublas.so.12",
    "libcublas.so",
#ifdef CUBLAS_DIR
    (CUBLAS_DIR "/libcublas.so"),
#endif
};

#define MEMBER(name) offsetof(struct gemm_cublas, name)

struct function {
    size_t member;
    const char *name;
};

/* Functions of a library, to be looked up in it and in those that it was linked with. */
struct exports {
    const struct function *functions;
    size_t count;
    const char *remedy; /* where one is missing */
};

static const struct function functions[] = {
    {MEMBER(create), "cublasCreate_v2"},          {MEMBER(destroy), "cublasDestroy_v2"},
    {MEMBER(set_stream), "cublasSetStream_v2"},   {MEMBER(set_workspace), "cublasSetWorkspace_v2"},
    {MEMBER(set_math_mode), "cublasSetMathMode"}, {MEMBER(dgemm), "cublasDgemm_v2_64"},
    {MEMBER(sgemm), "cublasSgemm_v2_64"},         {MEMBER(zgemm), "cublasZgemm_v2_64"},
    {MEMBER(cgemm), "cublasCgemm_v2_64"},         {MEMBER(status_string), "cublasGetStatusString"},
};

static const struct function library_functions[] = {
    {MEMBER(dgemm_of_library), "cublasDgemm_v2"},
    {MEMBER(sgemm_of_library), "cublasSgemm_v2"},
};

static int look_up(struct gemm_cublas *cublas, void *library, const struct exports *of,
                   struct error *err)
{
    for (size_t i = 0; i < of->count; i++) {
        void *function = dlsym(library, of->functions[i].name);
        if (!function)
            return error_add(err, EXIT_RESOURCES, "%s has no %s: %s", cublas->name,
                             of->functions[i].name, of->remedy);
        memcpy((char *)cublas + of->functions[i].member, &function, sizeof function);
    }
    return 0;
}

/* The library is never unloaded: the driver refers to its kernels until the process ends. */
static int load(struct gemm_cublas *cublas, struct error *err)
{
    void *library = NULL;
    for (size_t i = 0; i < sizeof library_names / sizeof *library_names && !library; i++)
        library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_add(err, EXIT_RESOURCES,
                         "cuBLAS was not found (%s): choose another --algo, or name its directory "
                         "in LD_LIBRARY_PATH",
                         dlerror());
    const struct exports all = {functions, sizeof functions / sizeof *functions,
                                "choose another --algo, or name the directory of cuBLAS 12 or "
                                "later in LD_LIBRARY_PATH"};
    return look_up(cublas, library, &all, err);
}

static int load_rival(struct gemm_cublas *cublas, struct error *err)
{
    static const char remedy[] =
        "give a library that exports products by cuBLAS's names and is linked with cuBLAS";
    const struct exports all = {functions, sizeof functions / sizeof *functions, remedy};
    const struct exports own = {library_functions,
                                sizeof library_functions / sizeof *library_functions, remedy};
    void *library = dlopen(cublas->name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_add(err, EXIT_RESOURCES, "%s cannot be loaded: %s", cublas->name, dlerror());
    int rc = look_up(cublas, library, &all, err);
    return rc ? rc : look_up(cublas, library, &own, err);
}

static int check(const struct gemm_cublas *cublas, cublasStatus_t status, const char *what,
                 struct error *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    return error_add(err, EXIT_RUNTIME, "GPU %d: %s: %s: %s", cublas->index, cublas->name, what,
                     cublas->status_string(status));
}

static int start(struct gemm_cublas *cublas, struct error *err)
{
    const size_t bytes = kernel_cublas.workspace;
    cudaError_t status = cudaMalloc(&cublas->workspace, bytes);
    if (status != cudaSuccess) {
        cudaGetLastError();
        return error_add(err, EXIT_RESOURCES, "GPU %d: allocating %zu bytes for cuBLAS: %s",
                         cublas->index, bytes, cudaGetErrorString(status));
    }

    /* The default mode computes in plain FP32 and FP64; TF32 and emulation are opt-in.  The
     * pedantic mode excludes them too, but may be slower according to NVIDIA. */
    int rc = check(cublas, cublas->create(&cublas->handle), "starting", err);
    if (rc == 0)
        rc = check(cublas, cublas->set_math_mode(cublas->handle, CUBLAS_DEFAULT_MATH),
                   "setting the math mode", err);
    /* The order matters: setting the stream resets the workspace. */
    if (rc == 0)
        rc = check(cublas, cublas->set_stream(cublas->handle, cublas->stream), "setting the stream",
                   err);
    if (rc == 0)
        rc = check(cublas, cublas->set_workspace(cublas->handle, cublas->workspace, bytes),
                   "setting the workspace", err);
    return rc;
}

int gemm_cublas_open(int index, cudaStream_t stream, const char *library, struct gemm_cublas **out,
                     struct error *err)
{
    *out = NULL;
    struct gemm_cublas *cublas = calloc(1, sizeof *cublas);
    if (!cublas)
        return error_add(err, EXIT_RESOURCES, "GPU %d: no host memory for cuBLAS", index);
    cublas->index = index;
    cublas->stream = stream;
    cublas->name = library ? library : "cuBLAS";
    int rc = library ? load_rival(cublas, err) : load(cublas, err);
    if (rc == 0)
        rc = start(cublas, err);
    if (rc == 0)
        *out = cublas;
    else
        gemm_cublas_close(cublas);
    return rc;
}

/* Every second column of op(A), as stored, has its complex numbers, or where it is transposed their
 * conjugates: so its leading dimension is as many complex numbers. */
static cublasStatus_t multiply_complex(const struct gemm_cublas *cublas, const struct gemm *g)
{
    const cublasOperation_t op_a = g->trans_a ? CUBLAS_OP_C : CUBLAS_OP_N;
    const int64_t m = g->m / 2, k = g->k / 2, ldb = g->ldb / 2, ldc = g->ldc / 2;
    if (g->type == SCALAR_FLOAT) {
        const cuComplex alpha = {(float)g->alpha, 0}, beta = {(float)g->beta, 0};
        return cublas->cgemm(cublas->handle, op_a, CUBLAS_OP_N, m, g->n, k, &alpha, g->a, g->lda,
                             g->b, ldb, &beta, g->c, ldc);
    }
    const cuDoubleComplex alpha = {g->alpha, 0}, beta = {g->beta, 0};
    return cublas->zgemm(cublas->handle, op_a, CUBLAS_OP_N, m, g->n, k, &alpha, g->a, g->lda, g->b,
                         ldb, &beta, g->c, ldc);
}

static cublasOperation_t operation(bool transposed)
{
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

static cublasStatus_t multiply_real(const struct gemm_cublas *cublas, const struct gemm *g)
{
    const float alpha = (float)g->alpha, beta = (float)g->beta;
    if (g->type == SCALAR_FLOAT)
        return cublas->sgemm(cublas->handle, operation(g->trans_a), operation(g->trans_b), g->m,
                             g->n, g->k, &alpha, g->a, g->lda, g->b, g->ldb, &beta, g->c, g->ldc);
    return cublas->dgemm(cublas->handle, operation(g->trans_a), operation(g->trans_b), g->m, g->n,
                         g->k, &g->alpha, g->a, g->lda, g->b, g->ldb, &g->beta, g->c, g->ldc);
}

/* Of real matrices, with 32-bit extents. */
static cublasStatus_t multiply_by_library(const struct gemm_cublas *cublas, const struct gemm *g)
{
    const float alpha = (float)g->alpha, beta = (float)g->beta;
    const int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    const int lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    if (g->complex || m != g->m || n != g->n || k != g->k || lda != g->lda || ldb != g->ldb ||
        ldc != g->ldc)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (g->type == SCALAR_FLOAT)
        return cublas->sgemm_of_library(cublas->handle, operation(g->trans_a),
                                        operation(g->trans_b), m, n, k, &alpha, g->a, lda, g->b,
                                        ldb, &beta, g->c, ldc);
    return cublas->dgemm_of_library(cublas->handle, operation(g->trans_a), operation(g->trans_b), m,
                                    n, k, &g->alpha, g->a, lda, g->b, ldb, &g->beta, g->c, ldc);
}

int gemm_cublas_run(struct gemm_cublas *cublas, const struct gemm *g, struct error *err)
{
    /* cuBLAS does not document that it leaves A and B unread in these cases. */
    bool scale_only = g->k == 0 || g->alpha == 0;
    cudaError_t cuda = cudaSetDevice(cublas->index);
    if (cuda == cudaSuccess && scale_only)
        cuda = code_naive.multiply(g, cublas->stream);
    if (cuda != cudaSuccess)
        return error_add(err, EXIT_RUNTIME, "GPU %d: GEMM: %s", cublas->index,
                         cudaGetErrorString(cuda));
    if (scale_only || g->m == 0 || g->n == 0)
        return 0;

    return check(cublas,
                 cublas->dgemm_of_library ? multiply_by_library(cublas, g)
                 : g->complex             ? multiply_complex(cublas, g)
                                          : multiply_real(cublas, g),
                 "GEMM", err);
}

void gemm_cublas_close(struct gemm_cublas *cublas)
{
    if (!cublas)
        return;
    if (cublas->handle)
        cublas->destroy(cublas->handle);
    if (cublas->workspace)
        cudaFree(cublas->workspace);
    free(cublas);
}
#endif
