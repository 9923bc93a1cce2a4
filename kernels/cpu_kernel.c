/* The micro-kernels of the CPU for one instruction set; the macro ISA is its name.
 *
 * The file is compiled once per instruction set, with the flags that enable it; GCC vector
 * extensions map to the registers of that set.  It needs -ffp-contract=fast, which turns s += x * y
 * of vectors into one fma where the set has it, as the bitwise contract of gemm.h requires. */
#include "cpu_kernel.h"

#include <math.h>
#include <string.h>

/* Register blocking: the accumulators, TILE_VECTORS vectors by TILE_COLS columns, fill the vector
 * registers except for a column of op(A) and a broadcast element of op(B). */
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
    PACK_STEPS = 8, /* k steps per pass of a transposing pack: one cache line of doubles */
    CHAIN_ROWS = 4, /* rows that project sums at a time */
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
#include "cpu_kernel_check.h"
#include "cpu_kernel_real.h"
#undef REAL
#undef FMA

#define REAL float
#define FMA fmaf
#include "cpu_kernel_check.h"
#include "cpu_kernel_real.h"
#undef REAL
#undef FMA

#define REAL int8_t
#include "cpu_kernel_check.h"
#undef REAL
#define REAL uint8_t
#include "cpu_kernel_check.h"
#undef REAL
#define REAL int16_t
#include "cpu_kernel_check.h"
#undef REAL
#define REAL uint16_t
#include "cpu_kernel_check.h"

/* Sums of products of bytes, two neighbours along k of each row at a time, as 16-bit numbers. */
static void multiply_bytes(const struct cpu_bytes *g)
{
    for (int64_t j = 0; j < g->cols; j++)
        for (int64_t i = 0; i < g->rows; i++) {
            const int16_t *a = g->a + i * g->pitch, *b = g->b + j * g->pitch;
            int32_t sum = 0;
            for (int64_t p = 0; p < g->k; p++)
                sum += a[p] * b[p];
            g->c[i + j * g->ldc] += (double)sum * g->scale;
        }
}

#define CHECK_OF(type)                                                                             \
    .sketch_row = JOIN(sketch_row, type), .sketch_cols = JOIN(sketch_cols, type),                  \
    .project_block = JOIN(project_block, type), .multiply_bytes = multiply_bytes

const struct cpu_kernel JOIN(cpu_kernels, ISA)[] = {
    [SCALAR_FLOAT] = {TILE_VECTORS * VECTOR_BYTES / sizeof(float), TILE_COLS, VECTOR_BYTES, FUSED,
                      pack_a_float, pack_b_float, multiply_float, combine_float,
                      combine_pairs_float, sketch_row_float, sketch_cols_float, project_block_float,
                      NULL},
    [SCALAR_DOUBLE] = {TILE_VECTORS * VECTOR_BYTES / sizeof(double), TILE_COLS, VECTOR_BYTES, FUSED,
                       pack_a_double, pack_b_double, multiply_double, combine_double,
                       combine_pairs_double, sketch_row_double, sketch_cols_double,
                       project_block_double, NULL},
    [SCALAR_INT8] = {CHECK_OF(int8_t)},
    [SCALAR_UINT8] = {CHECK_OF(uint8_t)},
    [SCALAR_INT16] = {CHECK_OF(int16_t)},
    [SCALAR_UINT16] = {CHECK_OF(uint16_t)},
};
