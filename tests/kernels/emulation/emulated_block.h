/* CUDA C++ for a C++ compiler: the keywords of the language, and the threads of a block.
 *
 * Each thread is a fiber; one fiber runs at a time until it waits at a barrier or for its warp.
 * The next one is chosen at random (seeded by the environment variable EMULATION_SEED), so that
 * operations not ordered by a barrier occur in any order.  Shared memory is filled with NaN when a
 * block starts.  A barrier that not all threads reach ends the program.  Blocks run in parallel, on
 * all CPUs. */
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#include "cuda_runtime_api.h"

using std::fabs;
using std::fma;
using std::max;
using std::min;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
/* One instance per CPU thread and thus per running block; the emulation fills them all. */
#define __shared__ thread_local

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};

/* They belong to the fiber that runs on this CPU thread. */
extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;

enum { WARP = 32 };

void __syncthreads();
void __syncwarp();

inline int atomicMax(int *at, int value)
{
    int old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value &&
           !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return old;
}

template <typename T>
T atomicAdd(T *at, T value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

inline int __float_as_int(float x)
{
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

unsigned char *emulated_dynamic_shared();

/* A collective operation of a warp: all of its threads call this with the same `act`, and the last
 * one calls `act` with the `mine` of each. */
void emulated_warp_meet(void *mine, void (*act)(void *const lanes[WARP]));

/* For whole warps only: all lanes take part. */
float __shfl_xor_sync(unsigned mask, float value, int lanes);
int __all_sync(unsigned mask, int predicate);
int __reduce_add_sync(unsigned mask, int value);

/* An asynchronous copy in flight, of the running fiber. */
struct emulated_copy {
    void *to;
    const void *from;
    int bytes, size; /* the first `bytes` of `size` are read, the rest is filled with zeros */
    unsigned group;
};
void emulated_copy_begin(const emulated_copy &copy);
void emulated_copy_commit();
void emulated_copy_wait(unsigned pending);

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

cudaError_t emulated_launch(const cudaLaunchConfig_t &config, const std::function<void()> &kernel);

template <typename... PARAMETERS, typename... ARGUMENTS>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(PARAMETERS...),
                               ARGUMENTS &&...arguments)
{
    const std::tuple<PARAMETERS...> parameters(arguments...);
    return emulated_launch(*config, [&] { std::apply(kernel, parameters); });
}
