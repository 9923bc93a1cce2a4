/* What kernels share that are fed by the tensor memory accelerator, TMA (sm_90a): the ring of
 * stages in shared memory, and how the driver describes a tensor. */
#pragma once

#include <cuda.h>

#include "launch.cuh"
#include "ptx.cuh"

/* A position in the ring of stages, with the parity of the barrier phase. */
template <int STAGES>
struct ring_position {
    int stage = 0;
    unsigned phase = 0;

    __device__ __forceinline__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

/* cuTensorMapEncodeTiled, without linking to the driver; null where the driver lacks it. */
static inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder()
{
    static const decltype(&cuTensorMapEncodeTiled) encoder = [] {
        void *function = nullptr;
        cudaDriverEntryPointQueryResult found;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                             cudaEnableDefault, &found) != cudaSuccess)
            cudaGetLastError();
        return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
    }();
    return encoder;
}

/* Whether the kernel was built with the instructions of sm_90a, for this GPU: for later ones there
 * may be no build of it at all. */
template <class KERNEL>
static cudaError_t built_for_sm_90a(KERNEL kernel, bool *is)
{
    cudaFuncAttributes built;
    const cudaError_t status = cudaFuncGetAttributes(&built, kernel);
    *is = status == cudaSuccess && built.ptxVersion == 90;
    if (status != cudaErrorNoKernelImageForDevice && status != cudaErrorInvalidDeviceFunction)
        return status;
    cudaGetLastError();
    return cudaSuccess;
}
