/* Residues and the Chinese remainder theorem (residues.h, ozaki_scheme.h).
 *
 * Goal: for every number of moduli the constants reconstruct integers from their residues, rounded
 * as in a conversion; quotients by multiplication are correct over the range in use; each shift is
 * the largest that the proof allows.  All of it for the moduli of real and of complex integers.
 * Method: 128-bit integers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ozaki_scheme.h"
#include "scratch.h"

enum { WIDE_MOST = 16 }; /* the most moduli whose product P fits 128 bits */

static bool complex; /* whose moduli are tested */

static uint64_t random_bits(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static __int128 random_wide(int bits)
{
    const __int128 wide = (__int128)((unsigned __int128)random_bits() << 64 | random_bits());
    return bits == 0 ? 0 : wide >> (128 - bits);
}

static __int128 product_of(const struct residues *r)
{
    __int128 product = 1;
    for (int q = 0; q < r->count; q++)
        product *= r->moduli[q].p;
    return product;
}

static int8_t residue_of(__int128 x, int p)
{
    int rest = (int)(x % p);
    rest += rest < 0 ? p : 0;
    return (int8_t)(rest > (p - 1) / 2 ? rest - p : rest);
}

static double brought_back(const struct residues *r, __int128 x)
{
    double sums[RESIDUES_PARTS] = {0};
    for (int q = 0; q < r->count; q++)
        ozaki_accumulate(r, r->parts, q, residue_of(x, r->moduli[q].p), sums);
    return ozaki_value(r, r->parts, sums);
}

/* Integers of any number of bits: those that a double can represent are reconstructed exactly,
 * others as one of the two nearest doubles. */
static void test_integers_come_back(void **state)
{
    (void)state;
    for (int n = RESIDUES_LEAST; n <= RESIDUES_MOST; n++) {
        struct residues r;
        residues_make(n, complex, &r);
        const int most = r.limit_log2 < 125 ? r.limit_log2 : 125; /* including the sign */
        for (int bits = 0; bits <= most; bits++)
            for (int trial = tries(400); trial > 0; trial--) {
                const __int128 wide = random_wide(bits),
                               x = trial % 2 ? wide : (__int128)(double)wide;
                const double expected = (double)x, found = brought_back(&r, x);
                if (found != expected &&
                    (found != nextafter(expected, found) || (__int128)expected == x))
                    fail_msg("%d moduli, %d bits: %a came back as %a", n, bits, expected, found);
            }
    }
}

/* The largest integers in range; a number above P/2 is reconstructed as another one. */
static void test_ends_of_the_range_come_back(void **state)
{
    (void)state;
    for (int n = RESIDUES_LEAST; n <= WIDE_MOST; n++) {
        struct residues r;
        residues_make(n, complex, &r);
        const __int128 product = product_of(&r), end = product / 512 * 255;
        assert_true(brought_back(&r, end) == (double)end);
        assert_true(brought_back(&r, -end) == -(double)end);
        assert_true(brought_back(&r, product - end) == -(double)end);
    }
}

static void test_limit_is_that_of_the_moduli(void **state)
{
    (void)state;
    for (int n = RESIDUES_LEAST; n <= WIDE_MOST; n++) {
        struct residues r;
        residues_make(n, complex, &r);
        const __int128 limit = product_of(&r) / 256 * 127;
        const __int128 unit = (__int128)1 << (r.limit_log2 - 31);
        assert_true(r.limit_top >> 31 == 1);
        assert_true(r.limit_top * unit <= limit && limit < (r.limit_top + (__int128)1) * unit);
    }
}

static void test_residues_of_operands(void **state)
{
    (void)state;
    const int64_t end = (int64_t)1 << OZAKI_BITS;
    struct residues r;
    residues_make(RESIDUES_MOST, complex, &r);
    for (int q = 0; q < r.count; q++) {
        const struct modulus *m = &r.moduli[q];
        for (int trial = tries(100000); trial > 0; trial--) {
            const int64_t x = (int64_t)random_bits() >> (1 + trial % 62);
            assert_int_equal((int8_t)ozaki_residue(m, ozaki_digits(x)), residue_of(x, m->p));
        }
        for (int64_t i = 0; i < 1000; i++) {
            assert_int_equal((int8_t)ozaki_residue(m, ozaki_digits(end - i)),
                             residue_of(end - i, m->p));
            assert_int_equal((int8_t)ozaki_residue(m, ozaki_digits(i - end)),
                             residue_of(i - end, m->p));
            assert_int_equal((int8_t)ozaki_residue(m, ozaki_digits(i - 500)),
                             residue_of(i - 500, m->p));
        }
    }
}

/* All values that a sum of eight bytes times powers can have. */
static void test_quotients_of_operands(void **state)
{
    (void)state;
    struct residues r;
    residues_make(RESIDUES_MOST, complex, &r);
    for (int q = 0; q < r.count; q++) {
        const struct modulus *m = &r.moduli[q];
        for (int64_t sum = -(1 << 18) + 1; sum < 1 << 18; sum++) {
            const uint32_t bits = OZAKI_WHOLE_BITS + (uint32_t)sum;
            assert_int_equal((int8_t)ozaki_rest(m, bits), residue_of(sum, m->p));
        }
    }
}

/* s, from the lowest byte of s 256^0. */
static int root_of(const struct modulus *m)
{
    const int root = (int8_t)(m->turned[0] & 255);
    assert_int_equal((root * root + 1) % m->p, 0);
    return root;
}

static void residues_of(const struct modulus *m, int64_t re, int64_t im, int8_t *plus,
                        int8_t *minus)
{
    uint32_t words[2];
    ozaki_residues(m, ozaki_digits(re), ozaki_digits(im), &words[0], &words[1]);
    *plus = (int8_t)words[0];
    *minus = (int8_t)words[1];
}

/* Both residues of complex integers, those of products, and those of the parts of these. */
static void test_complex_integers(void **state)
{
    (void)state;
    struct residues r;
    residues_make(RESIDUES_MOST, true, &r);
    for (int q = 0; q < r.count; q++) {
        const struct modulus *m = &r.moduli[q];
        const int s = root_of(m);
        for (int trial = tries(100000); trial > 0; trial--) {
            int64_t x[4]; /* re and im of two numbers */
            int8_t sides[4];
            for (int i = 0; i < 4; i++)
                x[i] = (int64_t)random_bits() >> (1 + (trial + i * i) % 62);
            for (int i = 0; i < 4; i += 2) {
                residues_of(m, x[i], x[i + 1], &sides[i], &sides[i + 1]);
                assert_int_equal(sides[i], residue_of(x[i] + (__int128)s * x[i + 1], m->p));
                assert_int_equal(sides[i + 1], residue_of(x[i] - (__int128)s * x[i + 1], m->p));
            }
            const int8_t plus = residue_of(sides[0] * sides[2], m->p),
                         minus = residue_of(sides[1] * sides[3], m->p);
            const __int128 re = (__int128)x[0] * x[2] - (__int128)x[1] * x[3],
                           im = (__int128)x[0] * x[3] + (__int128)x[1] * x[2];
            assert_int_equal(ozaki_part_residue(m, plus, minus, false), residue_of(re, m->p));
            assert_int_equal(ozaki_part_residue(m, plus, minus, true), residue_of(im, m->p));
        }
    }
}

/* The largest integers, and all pairs of residues. */
static void test_complex_integers_at_the_ends(void **state)
{
    (void)state;
    const int64_t end = (int64_t)1 << OZAKI_BITS;
    struct residues r;
    residues_make(RESIDUES_MOST, true, &r);
    for (int q = 0; q < r.count; q++) {
        const struct modulus *m = &r.moduli[q];
        const int s = root_of(m), half = m->p / 2;
        for (int64_t i = 0; i < 4000; i++) {
            const int64_t re = i % 2 ? end - i : i - end,
                          im = i % 4 < 2 ? end - i / 7 : i / 7 - end;
            int8_t plus, minus;
            residues_of(m, re, im, &plus, &minus);
            assert_int_equal(plus, residue_of(re + (__int128)s * im, m->p));
            assert_int_equal(minus, residue_of(re - (__int128)s * im, m->p));
        }
        for (int plus = -half; plus <= half; plus++)
            for (int minus = -half; minus <= half; minus++) {
                const int re = ozaki_part_residue(m, (int8_t)plus, (int8_t)minus, false);
                const int im = ozaki_part_residue(m, (int8_t)plus, (int8_t)minus, true);
                assert_int_equal(residue_of(re + s * im, m->p), plus);
                assert_int_equal(residue_of(re - s * im, m->p), minus);
                assert_true(abs(re) <= half && abs(im) <= half);
            }
    }
}

/* Quotients change halfway between two multiples of p; these midpoints and both neighbours are
 * tested. */
static void test_quotients_of_sums(void **state)
{
    (void)state;
    const int32_t most = 1 << 28;
    struct residues r;
    residues_make(RESIDUES_MOST, complex, &r);
    for (int q = 0; q < r.count; q++) {
        const struct modulus *m = &r.moduli[q];
        const int32_t stride = m->p * (brief() ? 97 : 1);
        for (int32_t middle = m->p / 2; middle < most - 1; middle += stride)
            for (int32_t x = middle - 1; x <= middle + 1; x++) {
                assert_int_equal(ozaki_reduced(m, x), residue_of(x, m->p));
                assert_int_equal(ozaki_reduced(m, -x), residue_of(-x, m->p));
            }
        assert_int_equal(ozaki_reduced(m, most), residue_of(most, m->p));
        assert_int_equal(ozaki_reduced(m, -most), residue_of(-most, m->p));
    }
}

/* The shift s satisfies 2^(2(s+E-15)) S <= P/2 (1 - 2^-7), and s + 1 does not. */
static void test_shifts_are_the_largest(void **state)
{
    (void)state;
    for (int n = RESIDUES_LEAST; n <= WIDE_MOST; n++) {
        struct residues r;
        residues_make(n, complex, &r);
        const long double limit = (long double)product_of(&r) * 127 / 256;
        for (int trial = tries(20000); trial > 0; trial--) {
            const uint64_t squares = (random_bits() >> 20 >> trial % 44) | 1;
            const int exponent = (int)(random_bits() % 2098) - 1073;
            const int shift = ozaki_shift(&r, exponent, squares);
            const int grown = shift + exponent - OZAKI_COARSE_BITS;
            const long double norm = ldexpl((long double)squares, 2 * grown);
            assert_true(norm <= limit);
            assert_true(shift + exponent <= OZAKI_BITS);
            /* limit_top is rounded down. */
            assert_true(4 * norm > limit * (1 - 0x1p-31L) || shift + exponent == OZAKI_BITS);
        }
    }
}

/* Coarse numbers are rounded up, to 15 bits below the row's exponent, so sums of squares are
 * bounds. */
static void test_coarse_numbers_are_upper_bounds(void **state)
{
    (void)state;
    for (int trial = tries(100000); trial > 0; trial--) {
        const int exponent = (int)(random_bits() % 1900) - 900, below = trial % 70;
        const double x = ldexp((double)((random_bits() >> 11) | 1), exponent - 53 - below);
        const double unit = ldexp(1, exponent - OZAKI_COARSE_BITS);
        const double coarse = (double)ozaki_coarse(trial % 2 ? x : -x, exponent);
        assert_true(coarse * unit >= x && (coarse - 1) * unit < x);
    }
}

static void test_rows_without_a_scale(void **state)
{
    (void)state;
    struct residues r;
    residues_make(14, complex, &r);
    assert_int_equal(ozaki_exponent(0), OZAKI_ZERO);
    assert_int_equal(ozaki_exponent(-0.0), OZAKI_ZERO);
    assert_int_equal(ozaki_exponent(NAN), OZAKI_NOT_FINITE);
    assert_int_equal(ozaki_exponent(-INFINITY), OZAKI_NOT_FINITE);
    assert_int_equal(ozaki_exponent(0x1p-1074), -1073);
    assert_int_equal(ozaki_exponent(-0x1.fffffffffffffp1023), 1024);
    assert_int_equal(ozaki_shift(&r, OZAKI_ZERO, 0), 0);
    assert_int_equal(ozaki_shift(&r, OZAKI_NOT_FINITE, 7), 0);
    assert_int_equal(ozaki_coarse(0, 5), 0);
    assert_int_equal(ozaki_coarse(0x1p-1074, 1024), 1);
    assert_int_equal(ozaki_coarse(0x1p-1074, -1073), 1 << 14);
    assert_int_equal(ozaki_coarse(-0x1.fffffffffffffp1023, 1024), 1 << 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_come_back),
        cmocka_unit_test(test_ends_of_the_range_come_back),
        cmocka_unit_test(test_limit_is_that_of_the_moduli),
        cmocka_unit_test(test_residues_of_operands),
        cmocka_unit_test(test_quotients_of_operands),
        cmocka_unit_test(test_quotients_of_sums),
        cmocka_unit_test(test_shifts_are_the_largest),
        cmocka_unit_test(test_coarse_numbers_are_upper_bounds),
        cmocka_unit_test(test_rows_without_a_scale),
    };
    const struct CMUnitTest complex_tests[] = {
        cmocka_unit_test(test_complex_integers),
        cmocka_unit_test(test_complex_integers_at_the_ends),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    complex = true;
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    return failures + cmocka_run_group_tests(complex_tests, NULL, NULL);
}
