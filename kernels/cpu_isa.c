/* Run-time selection among the instruction sets that kernels were compiled for: the levels
 * x86-64-v4 and x86-64-v3, and the baseline.  (Every CPU that has the features tested here has the
 * whole level.) */
#include "cpu_kernel.h"

enum { ISA_MAX = 3 };

extern const struct cpu_kernel cpu_kernels_baseline[];
#ifdef __x86_64__
extern const struct cpu_kernel cpu_kernels_avx2[], cpu_kernels_avx512[];
#endif

const struct cpu_kernel *cpu_kernels(int rank)
{
    const struct cpu_kernel *usable[ISA_MAX];
    int count = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        usable[count++] = cpu_kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        usable[count++] = cpu_kernels_avx2;
#endif
    usable[count++] = cpu_kernels_baseline;
    return rank < count ? usable[rank] : NULL;
}
