/* Copies from memory to shared memory that run while the thread goes on (sm_80 up). */
#ifndef DGEMM_OOC_COPY_ASYNC_CUH
#define DGEMM_OOC_COPY_ASYNC_CUH

#include <cuda_runtime_api.h>

/* Start copying BYTES, if wanted: 4, 8 or 16; both addresses are multiples of it.  The condition is
 * here, and not around the call, so that the code around stays one straight run. */
template <int BYTES>
__device__ __forceinline__ void copy_async(void *to, const void *from, bool wanted)
{
#if __CUDA_ARCH__ >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if (BYTES == 16) /* past the first-level cache: nobody reads these bytes again soon */
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0;\n"
                     "@p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(at),
                     "l"(from), "r"((int)wanted)
                     : "memory");
    else
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0;\n"
                     "@p cp.async.ca.shared.global [%0], [%1], %3; }" ::"r"(at),
                     "l"(from), "r"((int)wanted), "n"(BYTES)
                     : "memory");
#endif
}

/* The copies that this thread has started since the last call are one group. */
__device__ __forceinline__ void copy_commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Wait until at most PENDING of this thread's groups, the youngest, are not yet there. */
template <int PENDING>
__device__ __forceinline__ void copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

/* The block's dynamic shared memory. */
template <typename T>
__device__ __forceinline__ T *dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char memory[];
    return reinterpret_cast<T *>(memory);
}

#endif
