/* The check of products of planes (ozaki_check.cu), in the emulation.
 *
 * Goal: correct products pass, and a wrong residue is found at any position and with any value, in
 * C or, after the product, in an operand.  Method: planes of random residues, their product, and
 * one changed byte, DGEMM_OOC_TEST_TRIALS times each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <vector>

extern "C" {
#include <cmocka.h>
}

#include "ozaki_product.cuh"

enum { MODULI = 7, ROWS = 200, COLS = 130, STEPS = 100, TRIES = 8 };

static bool complex; /* two planes for each modulus */

static int flip_count()
{
    const char *text = getenv("DGEMM_OOC_TEST_TRIALS");
    return text ? atoi(text) : 2 * MODULI * (complex ? 2 : 1);
}

struct fixture {
    residues moduli;
    ozaki o = {};
    std::vector<int8_t> memory;
    ozaki_planes planes;
    unsigned long long wrong = 0;

    fixture()
    {
        residues_make(MODULI, complex, &moduli);
        o.residues = &moduli;
        memory.resize(ozaki_workspace(MODULI, complex, ROWS, COLS, STEPS));
        o.workspace = memory.data();
        planes = ozaki_planes_at(&o, ROWS, COLS, STEPS);
        fill(planes.a, planes.m);
        fill(planes.b, planes.n);
        assert_int_equal(ozaki_product_mma(moduli, planes, nullptr), cudaSuccess);
    }

    /* Fills with residues of each modulus, from the smallest to the largest. */
    void fill(int8_t *to, int64_t lines)
    {
        for (int q = 0; q < ozaki_plane_count(&moduli); q++) {
            const int p = ozaki_modulus(&moduli, q)->p;
            for (int64_t at = 0; at < lines * planes.k; at++)
                *to++ = (int8_t)(rand() % p - p / 2);
        }
    }

    unsigned long long check(uint64_t seed)
    {
        wrong = 0;
        assert_int_equal(ozaki_check(moduli, planes, seed, &wrong, nullptr), cudaSuccess);
        return wrong;
    }
};

static void test_right_products_pass(void **)
{
    fixture f;
    for (uint64_t seed = 0; seed < 3; seed++)
        assert_int_equal(f.check(seed), 0);
}

/* One residue of one element is wrong: exactly one row is wrong, for any signs. */
static void test_a_wrong_residue_of_c_is_found(void **)
{
    fixture f;
    const int64_t count = f.planes.m * f.planes.n;
    for (int flip = 0, flips = flip_count(); flip < flips; flip++) {
        const int q = flip % ozaki_plane_count(&f.moduli), p = ozaki_modulus(&f.moduli, q)->p;
        int8_t &byte = f.planes.c[q * count + rand() % count];
        const int8_t right = byte;
        const int more = (right + p / 2 + 1 + rand() % (p - 1)) % p; /* offset by p / 2 */
        byte = (int8_t)(more - p / 2);
        assert_int_equal(f.check((uint64_t)flip), 1);
        byte = right;
    }
    assert_int_equal(f.check(0), 0);
}

/* A changed byte of op(A) makes a row wrong, unless the elements that it is multiplied by add up to
 * 0. */
static void test_a_changed_operand_is_found(void **)
{
    fixture f;
    for (int flip = 0, flips = flip_count(); flip < flips; flip++) {
        const int count = ozaki_plane_count(&f.moduli), q = flip % count, bit = 1 << rand() % 7;
        const ozaki_planes &p = f.planes;
        int8_t &byte = flip / count % 2 ? p.b[(q * p.n + rand() % COLS) * p.k + rand() % p.k]
                                        : p.a[(q * p.m + rand() % p.m) * p.k + rand() % p.k];
        byte = (int8_t)(byte ^ bit);
        unsigned long long found = 0;
        for (uint64_t seed = 0; seed < TRIES && found == 0; seed++)
            found = f.check(seed);
        assert_true(found > 0);
        byte = (int8_t)(byte ^ bit);
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_products_pass),
        cmocka_unit_test(test_a_wrong_residue_of_c_is_found),
        cmocka_unit_test(test_a_changed_operand_is_found),
    };
    const int failures = cmocka_run_group_tests(tests, nullptr, nullptr);
    complex = true;
    return failures + cmocka_run_group_tests(tests, nullptr, nullptr);
}
