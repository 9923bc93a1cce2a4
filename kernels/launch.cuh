/* How a kernel starts, and the shared memory that it is given then.
 *
 * It starts through the runtime's function and not through <<<>>>, which only nvcc reads: the same
 * files are plain C++ where the tests run kernels on the CPU (tests/kernels/emulation). */
#ifndef DGEMM_OOC_LAUNCH_CUH
#define DGEMM_OOC_LAUNCH_CUH

#include "cuda_launch.h"

/* More dynamic shared memory than this must be asked for. */
enum { SHARED_BYTES_PLAIN = 48 << 10 };

template <typename... PARAMETERS, typename... ARGUMENTS>
cudaError_t start_kernel(void (*kernel)(PARAMETERS...), dim3 grid, dim3 block, size_t shared_bytes,
                         cudaStream_t stream, ARGUMENTS... arguments)
{
    if (shared_bytes > SHARED_BYTES_PLAIN) {
        cudaError_t status = cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (status != cudaSuccess)
            return status;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* cudaErrorNoKernelImageForDevice below a major compute capability. */
static inline cudaError_t require_capability(int least)
{
    int device = 0, major = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess && major < least)
        status = cudaErrorNoKernelImageForDevice;
    return status;
}

/* The block's dynamic shared memory, at an address that is a multiple of 1024. */
__device__ __forceinline__ unsigned char *dynamic_shared()
{
#ifdef __CUDACC__
    extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
    return dynamic_shared_memory;
#else
    return emulated_dynamic_shared();
#endif
}

#endif
