/* Algorithm 7: cuBLAS, loaded on demand, so that the program starts without it. */
#pragma once

#include <cuda_runtime_api.h>

#include "gemm.h"

struct error;
struct gemm_cublas;

/* Load cuBLAS for GPU `index`, the thread's current device; its work runs on `stream`, which stays
 * the caller's.  With a path as `library` instead of null, which is kept, products of real matrices
 * are by cublasDgemm and cublasSgemm of that library, on a handle of the cuBLAS that it was linked
 * with.  EXIT_RESOURCES where there is no such library, no cuBLAS 12 or later, or no memory. */
int gemm_cublas_open(int index, cudaStream_t stream, const char *library,
                     struct gemm_cublas **cublas, struct error *err);
/* Enqueue a product and return at once.  Not for two threads at once. */
int gemm_cublas_run(struct gemm_cublas *cublas, const struct gemm *gemm, struct error *err);

/* Does nothing with null.  cuBLAS itself stays loaded. */
void gemm_cublas_close(struct gemm_cublas *cublas);
