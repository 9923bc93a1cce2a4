/* The CPU kernels of integers: products of bytes by every instruction set that this CPU has, and by
 * the plain vectors that stand for all others; and the sums of the check (freivalds_exact.h).
 *
 * Goal: C gets the sums times the power of two, modulo 2^64, at every size of a tile, also where
 * the sums are the largest that there can be.  Method: sums in 64 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "freivalds_exact.h"
#include "integers.h"

/* The kernels as they are on a CPU that is not x86. */
#undef __x86_64__
#undef __AVX2__
#undef __AVX512F__
#define ISA plain
#include "cpu_kernel.c"

enum { LARGEST_TILE = 64, PAIRS_MOST = 300, LINES = 70, LENGTH = 133 };

/* A pair of neighbours along k. */
static int32_t pair_of(int32_t first, int32_t second)
{
    return (int32_t)((uint32_t)(uint16_t)first | (uint32_t)second << 16);
}

static int32_t any_byte(bool is_signed, bool extreme)
{
    const int32_t byte = extreme ? (rand() % 8 ? 255 : 0) : rand() % 256;
    return is_signed ? byte - 128 : byte;
}

static int32_t half(int32_t pair, int64_t which)
{
    return which ? pair >> 16 : (int16_t)pair;
}

static void try_tile(const struct cpu_kernel *k, int64_t rows, int64_t cols, int64_t depth,
                     bool extreme)
{
    static int32_t a[LARGEST_TILE * PAIRS_MOST], b[LARGEST_TILE * PAIRS_MOST];
    uint64_t c[LARGEST_TILE * LARGEST_TILE], before[LARGEST_TILE * LARGEST_TILE];
    const struct cpu_bytes tile = {rows, cols, depth, LARGEST_TILE, a, b, c, 8 * (rand() % 7)};
    assert_true(k->tile_rows <= LARGEST_TILE && k->tile_cols <= LARGEST_TILE);
    const bool signed_a = rand() % 2, signed_b = rand() % 2;
    for (int64_t i = 0; i < k->tile_rows * depth; i++)
        a[i] = pair_of(any_byte(signed_a, extreme), any_byte(signed_a, extreme));
    for (int64_t i = 0; i < k->tile_cols * depth; i++)
        b[i] = pair_of(any_byte(signed_b, extreme), any_byte(signed_b, extreme));
    for (int64_t i = 0; i < LARGEST_TILE * LARGEST_TILE; i++)
        c[i] = before[i] = (uint64_t)rand() << 33;
    k->multiply_bytes(&tile);
    for (int64_t j = 0; j < LARGEST_TILE; j++)
        for (int64_t i = 0; i < LARGEST_TILE; i++) {
            int64_t sum = 0;
            for (int64_t p = 0; p < 2 * depth && i < rows && j < cols; p++)
                sum += half(a[p / 2 * k->tile_rows + i], p % 2) *
                       half(b[p / 2 * k->tile_cols + j], p % 2);
            const int64_t at = j * LARGEST_TILE + i;
            assert_true(c[at] == before[at] + ((uint64_t)sum << tile.shift));
        }
}

static void try_kernel(const struct cpu_kernel *k)
{
    for (int64_t rows = 1; rows <= k->tile_rows; rows++)
        try_tile(k, rows, 1 + rand() % k->tile_cols, rand() % 20, rows % 2);
    for (int64_t cols = 1; cols <= k->tile_cols; cols++)
        try_tile(k, k->tile_rows, cols, PAIRS_MOST, true);
}

static void test_every_instruction_set(void **state)
{
    (void)state;
    for (int rank = 0; cpu_kernels(rank); rank++)
        for (int type = SCALAR_INT8; type < SCALAR_INT64; type++)
            try_kernel(&cpu_kernels(rank)[type]);
    try_kernel(&cpu_kernels_plain[SCALAR_INT8]);
}

/* Any bits that the type has. */
static int64_t element(enum scalar type, const void *matrix, int64_t at)
{
    switch (type) {
    case SCALAR_INT8: return ((const int8_t *)matrix)[at];
    case SCALAR_UINT8: return ((const uint8_t *)matrix)[at];
    case SCALAR_INT16: return ((const int16_t *)matrix)[at];
    case SCALAR_UINT16: return ((const uint16_t *)matrix)[at];
    case SCALAR_INT32: return ((const int32_t *)matrix)[at];
    case SCALAR_UINT32: return ((const uint32_t *)matrix)[at];
    default: return ((const int64_t *)matrix)[at];
    }
}

static void try_lines(enum scalar type, bool trans, bool adds)
{
    static unsigned char matrix[LINES * LENGTH * sizeof(int64_t)];
    uint64_t x[LENGTH], to[LINES];
    double squares[LINES];
    for (size_t i = 0; i < sizeof matrix; i++)
        matrix[i] = (unsigned char)rand();
    for (int j = 0; j < LENGTH; j++)
        x[j] = (uint64_t)rand() << 40 ^ (uint64_t)rand() << 20 ^ (uint64_t)rand();
    for (int i = 0; i < LINES; i++) {
        to[i] = adds ? 7 : 1000;
        squares[i] = 3;
    }
    const struct exact_lines lines = {
        type, adds, matrix, trans ? 1 : LENGTH, trans ? LINES : 1, LINES, LENGTH, x, to, squares};
    exact_lines_cpu(&lines, 2);
    for (int64_t i = 0; i < LINES; i++) {
        uint64_t sum = adds ? 7 : 0;
        double square = adds ? 3 : 0;
        for (int64_t j = 0; j < LENGTH; j++) {
            const int64_t e = element(type, matrix, i * lines.across + j * lines.along);
            sum += (uint64_t)e * x[j];
            square += (double)e * (double)e;
        }
        assert_true(to[i] == sum);
        assert_true(type == SCALAR_INT64 ? fabs(squares[i] - square) <= 1e-12 * square
                                         : squares[i] == 3);
    }
}

static void test_sums_of_the_check(void **state)
{
    (void)state;
    for (int type = SCALAR_INT8; type <= SCALAR_INT64; type++)
        for (int way = 0; way < 4; way++)
            try_lines((enum scalar)type, way & 1, way & 2);
}

/* A GPU's grid of blocks has 65535 tiles of 64 columns, and of 128 steps, at most. */
static void test_parts_for_a_grid(void **state)
{
    (void)state;
    const int64_t many = 100000000, any = 1000, columns = 65535 * 64, steps = 65535 * 128;
    struct integers_part long_k =
        integers_part(SCALAR_INT16, SCALAR_INT8, SIZE_MAX / 2, any, any, many);
    struct integers_part wide =
        integers_part(SCALAR_INT16, SCALAR_INT8, SIZE_MAX / 2, any, many, any);
    assert_true(long_k.steps <= steps && long_k.steps % INTEGERS_BLOCK == 0);
    assert_true(wide.cols <= columns && wide.cols % OZAKI_TILE == 0);
    assert_int_equal(wide.steps, any);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_for_a_grid),
        cmocka_unit_test(test_every_instruction_set),
        cmocka_unit_test(test_sums_of_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
