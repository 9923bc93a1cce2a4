/* The C interface of the CUDA kernels.
 *
 * Each function enqueues its work on `stream` of the current GPU and returns at once.  It returns
 * launch errors; an error during execution is returned by a later call that synchronises with the
 * stream.  Structs are copied at launch; the memory they point to must stay valid until then. */
#pragma once

#include <cuda_runtime_api.h>

#include "freivalds_exact.h"
#include "gemm.h"
#include "integers.h"
#include "ozaki.h"
#include "vector.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t gemm_naive(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_shared(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_register(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_vector(const struct gemm *gemm, cudaStream_t stream);

/* These need compute capability 8.0 (else cudaErrorNoKernelImageForDevice).  tma runs its own
 * kernel for doubles on 9.0 only, and the kernels of tensor in all other cases. */
cudaError_t gemm_async(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_simt(const struct gemm *gemm, cudaStream_t stream); /* floats only */
cudaError_t gemm_tensor(const struct gemm *gemm, cudaStream_t stream);
cudaError_t gemm_tma(const struct gemm *gemm, cudaStream_t stream);

cudaError_t ozaki_cuda(const struct gemm *gemm, const struct ozaki *ozaki, cudaStream_t stream);
cudaError_t integers_cuda(const struct gemm *gemm, const struct integers *integers,
                          cudaStream_t stream);
cudaError_t combine_cuda(const struct combine *combine, cudaStream_t stream);
cudaError_t mirror_cuda(const struct mirror *mirror, cudaStream_t stream);
cudaError_t reflect_cuda(const struct reflect *reflect, cudaStream_t stream);
cudaError_t standardize_cuda(const struct standardize *standardize, cudaStream_t stream);
cudaError_t embed_cuda(const struct embed *embed, cudaStream_t stream);
cudaError_t sketch_cuda(const struct sketch *sketch, cudaStream_t stream);
cudaError_t retire_cuda(const struct retire *retire, cudaStream_t stream);
cudaError_t project_cuda(const struct project *project, cudaStream_t stream);
cudaError_t norms_cuda(const struct norms *norms, cudaStream_t stream);
cudaError_t judge_cuda(const struct judge *judge, cudaStream_t stream);
cudaError_t exact_lines_cuda(const struct exact_lines *lines, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
