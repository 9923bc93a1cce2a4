/* The micro-kernels of the CPU for one instruction set; the macro ISA is its name.
 *
 * The file is compiled once per instruction set, with the flags that enable it; GCC vector
 * extensions map to the registers of that set.  It needs -ffp-contract=fast, which turns s += x * y
 * of vectors into one fma where the set has it, as the bitwise contract of gemm.h requires. */
#include "cpu_kernel.h"

#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

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
    ROWS_AHEAD = 8, /* of a sketch, that are fetched before they are needed */
    DOUBLES = VECTOR_BYTES / sizeof(double),
    LANE_VECTORS = CLASSES_MAX / DOUBLES,
    PAIRS = VECTOR_BYTES / sizeof(int32_t),
    BYTES_VECTORS = 2, /* of the rows of a tile of bytes */
    BYTES_ROWS = BYTES_VECTORS * PAIRS,
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

/* Sum CLASSES_MAX lanes pairwise into the first `lanes` ones. */
static inline void join_lanes_of(doubles *lane, int lanes, double *sums)
{
    int half = LANE_VECTORS / 2;
    for (; half > 0 && half * DOUBLES >= lanes; half /= 2)
        for (int v = 0; v < half; v++)
            lane[v] += lane[v + half];
    for (int v = 0; v * DOUBLES < lanes; v++)
        for (int l = 0; l < DOUBLES; l++)
            sums[v * DOUBLES + l] = lane[v][l];
    for (half = DOUBLES / 2; half >= lanes; half /= 2)
        for (int l = 0; l < half; l++)
            sums[l] += sums[l + half];
}

#include "cpu_kernel_pieces.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define REAL double
#define FMA fma
#include "cpu_kernel_check.h"
#include "cpu_kernel_real.h"
#include "cpu_kernel_sums.h"
#undef REAL
#undef FMA

#define REAL float
#define FMA fmaf
#include "cpu_kernel_check.h"
#include "cpu_kernel_real.h"
#include "cpu_kernel_sums.h"
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
#undef REAL
#define REAL int32_t
#include "cpu_kernel_check.h"
#undef REAL
#define REAL uint32_t
#include "cpu_kernel_check.h"
#undef REAL

typedef int32_t pairs __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t memory_pairs
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(int32_t)), may_alias));

/* Adds the two products of the halves. */
static inline pairs add_products(pairs sums, pairs x, pairs y)
{
#if VECTOR_BYTES == 64 && defined __AVX512BW__
    return sums + (pairs)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#elif VECTOR_BYTES == 32
    return sums + (pairs)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#elif VECTOR_BYTES == 16 && defined __x86_64__
    return sums + (pairs)_mm_madd_epi16((__m128i)x, (__m128i)y);
#else
    return sums + (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
#endif
}

static inline void sum_bytes(const struct cpu_bytes *g, pairs sums[TILE_COLS][BYTES_VECTORS])
{
    pairs s[TILE_COLS][BYTES_VECTORS] = {0};
    const int32_t *a = g->a, *b = g->b;
    for (int64_t p = g->pairs; p > 0; p--, a += BYTES_ROWS, b += TILE_COLS) {
        pairs x[BYTES_VECTORS];
#pragma GCC unroll 8
        for (int64_t v = 0; v < BYTES_VECTORS; v++)
            x[v] = *(const memory_pairs *)(a + v * PAIRS);
#pragma GCC unroll 8
        for (int64_t j = 0; j < TILE_COLS; j++)
#pragma GCC unroll 8
            for (int64_t v = 0; v < BYTES_VECTORS; v++)
                s[j][v] = add_products(s[j][v], x[v], b[j] + (pairs){0});
    }
    memcpy(sums, s, sizeof s);
}

static void multiply_bytes(const struct cpu_bytes *g)
{
    union {
        pairs vectors[TILE_COLS][BYTES_VECTORS];
        int32_t numbers[TILE_COLS][BYTES_ROWS];
    } sums;
    sum_bytes(g, sums.vectors);
    for (int64_t j = 0; j < g->cols; j++) {
        uint64_t *c = g->c + j * g->ldc;
        for (int64_t i = 0; i < g->rows; i++)
            c[i] += (uint64_t)(int64_t)sums.numbers[j][i] << g->shift;
    }
}

#define CHECK_OF(type)                                                                             \
    .tile_rows = BYTES_ROWS, .tile_cols = TILE_COLS, .sketch_row = JOIN(sketch_row, type),         \
    .sketch_cols = JOIN(sketch_cols, type), .project_block = JOIN(project_block, type),            \
    .multiply_bytes = multiply_bytes

const struct cpu_kernel JOIN(cpu_kernels, ISA)[] = {
    [SCALAR_FLOAT] = {TILE_VECTORS * VECTOR_BYTES / sizeof(float), TILE_COLS, VECTOR_BYTES, FUSED,
                      pack_a_float, pack_b_float, multiply_float, combine_float,
                      combine_pairs_float, sketch_row_float, sketch_cols_float, project_block_float,
                      NULL, lane_sums_float},
    [SCALAR_DOUBLE] = {TILE_VECTORS * VECTOR_BYTES / sizeof(double), TILE_COLS, VECTOR_BYTES, FUSED,
                       pack_a_double, pack_b_double, multiply_double, combine_double,
                       combine_pairs_double, sketch_row_double, sketch_cols_double,
                       project_block_double, NULL, lane_sums_double},
    [SCALAR_INT8] = {CHECK_OF(int8_t)},
    [SCALAR_UINT8] = {CHECK_OF(uint8_t)},
    [SCALAR_INT16] = {CHECK_OF(int16_t)},
    [SCALAR_UINT16] = {CHECK_OF(uint16_t)},
    [SCALAR_INT32] = {CHECK_OF(int32_t)},
    [SCALAR_UINT32] = {CHECK_OF(uint32_t)},
};
