/* Algorithm 7: cuBLAS, found and loaded when it is asked for, so that the program starts without
 * it. */
#ifndef DGEMM_OOC_GEMM_CUBLAS_H
#define DGEMM_OOC_GEMM_CUBLAS_H

#include <cuda_runtime_api.h>

#include "gemm.h"

struct error;
struct gemm_cublas;

/* Load cuBLAS for GPU `index`, which must be selected; its work runs on `stream`.  Not to be used
 * by two threads at once. */
int gemm_cublas_open(int index, cudaStream_t stream, struct gemm_cublas **cublas,
                     struct error *err);
int gemm_cublas_run(struct gemm_cublas *cublas, const struct gemm *gemm, struct error *err);

/* Null is allowed. */
void gemm_cublas_close(struct gemm_cublas *cublas);

#endif
