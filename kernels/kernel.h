/* The kernels: what each of them is, which one is chosen, and how users name it.
 *
 * A kernel is a file that exports its record, kernel_NAME, and has a line in KERNELS.  Nothing else
 * names it: the choice, the options, the planner's rates, the builds, the bench and the tests read
 * the records.  A file in CUDA C++ is compiled twice: as C it is its record alone, which every
 * build has, so that one without CUDA can plan for GPUs. */
#pragma once

#include "gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First the ladder of GPU kernels, which users may also number; then those that a CPU has, too;
 * then those of planes of bytes (ozaki.h), which no user names.  Of two kernels the later one is
 * faster, wherever both have a rate. */
#define KERNELS(KERNEL)                                                                            \
    KERNEL(NAIVE, naive)                                                                           \
    KERNEL(SHARED, shared)                                                                         \
    KERNEL(REGISTER, register)                                                                     \
    KERNEL(VECTOR, vector)                                                                         \
    KERNEL(ASYNC, async)                                                                           \
    KERNEL(TENSOR, tensor)                                                                         \
    KERNEL(TMA, tma)                                                                               \
    KERNEL(CUBLAS, cublas)                                                                         \
    KERNEL(CPU, cpu)                                                                               \
    KERNEL(OZAKI, ozaki) /* products in residues, not through struct gemm alone */                 \
    KERNEL(DP4A, dp4a)                                                                             \
    KERNEL(MMA, mma)                                                                               \
    KERNEL(WGMMA, wgmma)

#define KERNEL_NUMBER(NUMBER, name) ALGORITHM_##NUMBER,
enum algorithm { KERNELS(KERNEL_NUMBER) ALGORITHM_COUNT };

enum { ALGORITHM_NONE = -1, CAPABILITY_ANY = 1 << 30, KERNEL_RATES = 3 };

/* Operations that one multiprocessor does a clock, at most, on the units that the kernel uses. */
struct kernel_rate {
    int least, most; /* compute capabilities that it is of: 90 for 9.0 */
    double per_clock;
};

struct kernel_code; /* what starts it on a GPU (cuda_launch.h) */

struct kernel {
    const char *name;
    /* What it is compiled for, besides all others, if its instructions are of one GPU alone, as
     * "90a"; null: they are of all.  The Makefile reads it in the file. */
    const char *architecture;
    const struct kernel_code *code; /* null: it has none, or not in this build */
    bool on_gpu, on_cpu;            /* in this build */
    bool same_bits;                 /* on any tiles, slabs and threads (gemm.h) */
    bool running_sum;               /* each element is one, rounded once per step of k */
    bool reports_peaks[SCALAR_COUNT];
    int shapes; /* of a block, that struct gemm selects; all give the same bits */
    /* Bytes of device memory, and of host memory, that it uses besides its operands; of products in
     * residues, without their workspace. */
    size_t workspace, host_bytes;
    /* Where it may be chosen, by what is multiplied: SCALAR_INT8 for kernels of planes of bytes. */
    struct kernel_rate rates[SCALAR_COUNT][KERNEL_RATES];
    double of_peak; /* what it reaches of these, about */
    double of_best; /* and of the rate of the best kernel, by a measurement of doubles on an H200 */
};

#define KERNEL_RECORD(NUMBER, name)                                                                \
    extern const struct kernel kernel_##name;                                                      \
    extern const struct kernel_code code_##name;
KERNELS(KERNEL_RECORD)

/* For records of what runs on a GPU: whether this build has that, and what all of its kernels have
 * in common.  The CUDA runtime loads kernels lazily, into host memory. */
#ifdef HAVE_CUDA
enum { HAS_CUDA = true };
#define KERNEL_CODE(name) &code_##name
#else
enum { HAS_CUDA = false };
#define KERNEL_CODE(name) NULL
#endif
enum { CUDA_HOST_BYTES = 12 << 20 };
#define GPU_KERNEL(id)                                                                             \
    .name = #id, .on_gpu = HAS_CUDA, .code = KERNEL_CODE(id), .host_bytes = CUDA_HOST_BYTES

/* By enum algorithm. */
extern const struct kernel *const kernels[ALGORITHM_COUNT];

/* The kernel of this build with that name or number ("2" is "register"); the name may end with a
 * number of moduli, "ozaki:14", which goes to *moduli, or else 0.  ALGORITHM_NONE if there is
 * none. */
int algorithm_parse(const char *text, int *moduli);

/* Whether users may choose it, in this build. */
bool algorithm_is_choice(enum algorithm id);

/* What algorithm_parse takes, as a list of words (text.h). */
const char *algorithm_names(void);

/* The ladder of GPU kernels and how it is numbered, whatever this build has (text.h). */
const char *algorithm_ladder(void);

/* The default for a compute capability (90 for 9.0; 0: the CPU) and what is multiplied: the fastest
 * one that keeps the bitwise contract.  Independent of the sizes of tiles and problem. */
enum algorithm algorithm_auto(int capability, enum scalar type);

/* Operations a multiprocessor and clock, at most, of that one on a GPU. */
double algorithm_peak(int capability, enum scalar type);

/* Whether its elements are running sums: true for kernels that keep the bitwise contract, except on
 * CPUs without fused multiply-add; false for products in residues. */
bool algorithm_is_running_sum(enum algorithm id);

#ifdef __cplusplus
}
#endif
