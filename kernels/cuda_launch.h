/* The CUDA kernels as C sees them.
 *
 * Each function starts its work on a stream and returns at once.  What it returns is the launch's
 * own error; one that strikes later shows at the next call that waits for the stream. */
#ifndef DGEMM_OOC_CUDA_LAUNCH_H
#define DGEMM_OOC_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "freivalds.h"
#include "gemm.h"
#include "ozaki.h"
#include "vector.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t gemm_naive(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_shared(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_register(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_vector(const struct gemm *gemm, cudaStream_t stream);

/* Compute capability 8.0 up, tma for doubles 9.0; below, an error. */
cudaError_t gemm_async(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_simt(const struct gemm *gemm, cudaStream_t stream); /* floats only */
cudaError_t gemm_tensor(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_tma(const struct gemm *gemm, cudaStream_t stream);

cudaError_t ozaki_cuda(const struct gemm *gemm, const struct ozaki *ozaki, cudaStream_t stream);
cudaError_t combine_cuda(const struct combine *combine, cudaStream_t stream);
cudaError_t sketch_cuda(const struct sketch *sketch, cudaStream_t stream);
cudaError_t retire_cuda(const struct retire *retire, cudaStream_t stream);
cudaError_t project_cuda(const struct project *project, cudaStream_t stream);
cudaError_t norms_cuda(const struct norms *norms, cudaStream_t stream);
cudaError_t judge_cuda(const struct judge *judge, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
