/* cuBLAS is not emulated: its algorithm fails to open. */
#include "gemm_cublas.h"

#include "error.h"
#include "kernel.h"

const struct kernel kernel_cublas = {.name = "cublas", .on_gpu = true};

int gemm_cublas_open(int index, cudaStream_t stream, const char *library,
                     struct gemm_cublas **cublas, struct error *err)
{
    (void)stream;
    (void)library;
    *cublas = NULL;
    return error_add(err, EXIT_RESOURCES, "GPU %d: cuBLAS is not emulated", index);
}

int gemm_cublas_run(struct gemm_cublas *cublas, const struct gemm *gemm, struct error *err)
{
    (void)cublas;
    (void)gemm;
    return error_add(err, EXIT_RUNTIME, "cuBLAS is not emulated");
}

void gemm_cublas_close(struct gemm_cublas *cublas)
{
    (void)cublas;
}
