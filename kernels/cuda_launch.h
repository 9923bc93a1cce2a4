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
#include "kernel.h"
#include "ozaki.h"
#include "vector.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ozaki_planes;
struct byte_planes;
struct sums_out;

/* What starts a kernel (kernel.h).  Where the GPU lacks its instructions it starts another one with
 * the same bits; below compute capability 8.0 it may return cudaErrorNoKernelImageForDevice
 * instead.  Null: it does not multiply these. */
struct kernel_code {
    cudaError_t (*multiply)(const struct gemm *gemm, cudaStream_t stream);
    /* Planes of bytes, to residues (ozaki_product.cuh) or to C (bytes_product.cuh).  `leaves_room`
     * is as in struct gemm. */
    cudaError_t (*to_residues)(const struct residues *moduli, const struct ozaki_planes *planes,
                               bool leaves_room, cudaStream_t stream);
    cudaError_t (*to_integers)(const struct byte_planes *planes, const struct sums_out *out,
                               bool leaves_room, cudaStream_t stream);
    bool whole_tiles; /* which to_integers wants, too */
};

cudaError_t gemm_simt(const struct gemm *gemm, cudaStream_t stream); /* the floats of tensor */
cudaError_t ozaki_cuda(const struct gemm *gemm, const struct ozaki *ozaki, cudaStream_t stream);
cudaError_t integers_cuda(const struct gemm *gemm, const struct integers *integers,
                          cudaStream_t stream);
cudaError_t combine_cuda(const struct combine *combine, cudaStream_t stream);
cudaError_t mirror_cuda(const struct mirror *mirror, cudaStream_t stream);
cudaError_t reflect_cuda(const struct reflect *reflect, cudaStream_t stream);
cudaError_t standardize_cuda(const struct standardize *standardize, cudaStream_t stream);
cudaError_t recentre_cuda(const struct recentre *recentre, cudaStream_t stream);
cudaError_t embed_cuda(const struct embed *embed, cudaStream_t stream);
cudaError_t fold_cuda(const struct fold *fold, cudaStream_t stream);
cudaError_t sketch_cuda(const struct sketch *sketch, cudaStream_t stream);
cudaError_t retire_cuda(const struct retire *retire, cudaStream_t stream);
cudaError_t project_cuda(const struct project *project, cudaStream_t stream);
cudaError_t norms_cuda(const struct norms *norms, cudaStream_t stream);
cudaError_t judge_cuda(const struct judge *judge, cudaStream_t stream);
cudaError_t exact_lines_cuda(const struct exact_lines *lines, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
