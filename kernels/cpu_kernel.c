/* The inner loops of the CPU kernels for one instruction set, whose name is ISA.
 *
 * Compiled once an instruction set, with the flags that switch it on; the vectors are GCC's, so
 * that the compiler turns them into whatever the set has.  Needs -ffp-contract=fast: it makes a
 * vector's s += x * y one fma where the set has it, which is what the contract on the bits in
 * gemm.h asks for. */
#include "cpu_kernel.h"

#include <math.h>
#include <string.h>

/* A tile of TILE_VECTORS vectors by TILE_COLS columns of sums fills the registers, but for a
 * column of op(A) and one element of op(B). */
#if defined __AVX512F__
#define VECTOR_BYTES 64
#define TILE_VECTORS 3
#define TILE_COLS 8
#elif defined __AVX2__ && defined __FMA__
#define VECTOR_BYTES 32
#define TILE_VECTORS 3
#define TILE_COLS 4
#elif defined __x86_64__
#define VECTOR_BYTES 16
#define TILE_VECTORS 2
#define TILE_COLS 4
#else
#define VECTOR_BYTES 16
#define TILE_VECTORS 3
#define TILE_COLS 8
#endif

enum {
    LINE_BYTES = 64,
    AHEAD_BYTES = 2048, /* how far before its use a long row is called for */
    PACK_STEPS = 8,     /* k steps that a transposing pack takes at a time: a line of doubles */
    CHAIN_ROWS = 4,     /* whose sums project makes at a time */
    DOUBLES = VECTOR_BYTES / sizeof(double),
    LANE_VECTORS = CLASSES_MAX / DOUBLES,
};

#if defined __FMA__ || defined __ARM_FEATURE_FMA
#define FUSED true
#else
#define FUSED false
#endif

typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef double memory_doubles
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(double)), may_alias));
typedef int64_t bits __attribute__((vector_size(VECTOR_BYTES)));

static inline doubles absolute(doubles x)
{
    return (doubles)((bits)x & INT64_MAX);
}

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define REAL double
#define FMA fma
#include "cpu_kernel_real.h"
#undef REAL
#undef FMA

#define REAL float
#define FMA fmaf
#include "cpu_kernel_real.h"

const struct cpu_kernel JOIN(cpu_kernels, ISA)[] = {
    [SCALAR_FLOAT] = {TILE_VECTORS * VECTOR_BYTES / sizeof(float), TILE_COLS, VECTOR_BYTES, FUSED,
                      pack_a_float, pack_b_float, multiply_float, combine_float, sketch_row_float,
                      sketch_cols_float, project_block_float},
    [SCALAR_DOUBLE] = {TILE_VECTORS * VECTOR_BYTES / sizeof(double), TILE_COLS, VECTOR_BYTES, FUSED,
                       pack_a_double, pack_b_double, multiply_double, combine_double,
                       sketch_row_double, sketch_cols_double, project_block_double},
};
