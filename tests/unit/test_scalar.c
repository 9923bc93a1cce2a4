/* The table of element types, against what C says of them, and numbers of 16 bits. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scalar.h"

static void test_table(void **state)
{
    (void)state;
    for (enum scalar type = 0; type < SCALAR_COUNT; type++) {
        const struct scalar_info *info = &scalar_table[type];
        const int fraction = 8 * info->bytes - 1 - info->exponent;
        const double sign = info->is_signed ? 1 : 0;
        assert_int_equal(scalar_factor(scalar_factor(type)), scalar_factor(type));
        assert_int_equal(scalar_finer(scalar_finer(type)), scalar_finer(type));
        assert_true(scalar_roundoff(scalar_finer(type)) <= info->roundoff);
        assert_true((info->letters[0] != 0) == scalar_is_float_or_double(type));
        assert_true(scalar_is_integer(type) != scalar_is_real(type));
        if (scalar_is_integer(type)) { /* that of int64 is rounded */
            assert_true(info->largest == ldexp(1, 8 * info->bytes - info->is_signed) - 1 + sign);
            continue;
        }
        assert_true(info->roundoff == ldexp(1, -fraction - 1));
        assert_true(info->largest ==
                    ldexp(2 - ldexp(1, -fraction), (1 << (info->exponent - 1)) - 1));
        assert_int_equal(scalar_whole_bits(type), fraction + 1);
    }
    assert_true(scalar_largest(SCALAR_FLOAT) == (double)FLT_MAX);
    assert_true(scalar_roundoff(SCALAR_DOUBLE) == DBL_EPSILON / 2);
}

/* A number by the definition of its format. */
static double value_of(uint16_t bits, int exponent_bits)
{
    const int fraction_bits = 15 - exponent_bits, most = (1 << exponent_bits) - 1;
    const int exponent = bits >> fraction_bits & most, fraction = bits & ((1 << fraction_bits) - 1);
    const double one = exponent == 0 ? 0 : 1, sign = bits & 0x8000 ? -1 : 1;
    if (exponent == most)
        return fraction ? (double)NAN : sign * INFINITY;
    return sign *
           ldexp(one + ldexp(fraction, -fraction_bits), (exponent ? exponent : 1) - (most >> 1));
}

static void test_every_number_of_16_bits(void **state)
{
    (void)state;
    for (enum scalar type = SCALAR_FLOAT16; type <= SCALAR_BFLOAT16; type++)
        for (int i = 0; i < 1 << 16; i++) {
            const uint16_t bits = (uint16_t)i, given[4] = {bits}; /* room for any type */
            uint16_t again[4];
            const double want = value_of(bits, scalar_table[type].exponent);
            const double value = scalar_get(type, given, 0);
            assert_true(isnan(want) ? isnan(value)
                                    : value == want && signbit(value) == signbit(want));
            scalar_put(type, value, again, 0);
            assert_true(again[0] == bits || (isnan(want) && isnan(scalar_get(type, again, 0))));
        }
}

/* In the end of the memory that the floats take. */
static void test_widened_in_place(void **state)
{
    enum { MOST = 1000 };
    static float numbers[MOST + 1];
    (void)state;
    for (enum scalar type = SCALAR_FLOAT16; type <= SCALAR_BFLOAT16; type++)
        for (int count = 0; count <= MOST; count += count < 5 || count > 995 ? 1 : 199) {
            uint16_t stored[MOST];
            for (int i = 0; i < count; i++)
                stored[i] = (uint16_t)(i * 61);
            char *end = (char *)numbers + 2 * (size_t)count;
            numbers[count] = -1;
            memcpy(end, stored, 2 * (size_t)count);
            scalar_widen(type, end, count, numbers);
            for (int i = 0; i < count; i++)
                assert_true((double)numbers[i] == scalar_get(type, stored, i) || isnan(numbers[i]));
            assert_true(numbers[count] == -1);
        }
}

/* In the beginning of the memory that the doubles take. */
static void test_narrowed_in_place(void **state)
{
    enum { MOST = 1000 };
    static const double special[] = {0x1.000001p0, 0x1.000003p0, -0.0,           FLT_MAX,
                                     DBL_MAX,      -DBL_MAX,     0x1.ffffffp127, -0x1p128,
                                     INFINITY,     (double)NAN,  0x1p-149,       0x1p-150};
    enum { SPECIAL = sizeof special / sizeof *special };
    (void)state;
    for (int count = 0; count <= MOST; count += count < 5 || count > 995 ? 1 : 199) {
        double numbers[MOST + 1], before[MOST];
        int64_t infinite = 0;
        for (int i = 0; i < count; i++) {
            numbers[i] = before[i] = i % 3 ? sin(i) : special[i / 3 % SPECIAL];
            infinite += isfinite(before[i]) && isinf((float)before[i]);
        }
        numbers[count] = -1;
        assert_int_equal(scalar_narrow(numbers, count), infinite);
        for (int i = 0; i < count; i++) {
            const float expected = (float)before[i];
            assert_memory_equal((const char *)numbers + 4 * (size_t)i, &expected, sizeof expected);
        }
        assert_true(numbers[count] == -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_every_number_of_16_bits),
        cmocka_unit_test(test_widened_in_place),
        cmocka_unit_test(test_narrowed_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
