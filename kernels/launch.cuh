/* Kernel launches and dynamic shared memory.
 *
 * Kernels are launched by a function of the runtime, not by <<<>>>, which only nvcc parses: the
 * tests compile the same files as plain C++ and run them on the CPU (tests/kernels/emulation). */
#pragma once

#include "cuda_launch.h"

/* A kernel needs cudaFuncSetAttribute for more dynamic shared memory than this. */
enum { SHARED_BYTES_PLAIN = 48 << 10 };

/* Call `start` with a number of the type, for which kernels are made. */
template <class START>
static cudaError_t for_real(enum scalar type, const START &start)
{
    switch (type) {
    case SCALAR_FLOAT: return start(float());
    case SCALAR_DOUBLE: return start(double());
    default: return cudaErrorInvalidValue;
    }
}

/* Elements that become floats. */
struct float16 {
    uint16_t bits;
    __device__ __forceinline__ operator float() const
    {
        return float16_value(bits);
    }
};

struct bfloat16 {
    uint16_t bits;
    __device__ __forceinline__ operator float() const
    {
        return bfloat16_value(bits);
    }
};

/* Likewise, with an element as it is stored, and what it becomes before it is multiplied. */
template <class START>
static cudaError_t for_stored(enum scalar stored, const START &start)
{
    switch (stored) {
    case SCALAR_FLOAT16: return start(float16(), float());
    case SCALAR_BFLOAT16: return start(bfloat16(), float());
    default: return for_real(stored, [&](auto x) { return start(x, x); });
    }
}

/* Enqueue a kernel with `shared_bytes` of dynamic shared memory.  Returns at once. */
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

/* cudaErrorNoKernelImageForDevice where the current GPU's major compute capability is below
 * `least`. */
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

/* The block's dynamic shared memory, aligned to 1024 bytes. */
__device__ __forceinline__ unsigned char *dynamic_shared()
{
#ifdef __CUDACC__
    extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
    return dynamic_shared_memory;
#else
    return emulated_dynamic_shared();
#endif
}
