/* The check of products of planes (ozaki_check.cu), in the emulation.
 *
 * Goal: correct products pass, and a wrong residue is found at any position and with any value, in
 * C or, after what is expected of them has been computed, in an operand.  Method: products of
 * random numbers by a kernel of this test, which changes one byte before or after it multiplies,
 * DGEMM_OOC_TEST_TRIALS times each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <functional>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#include "ozaki_product.cuh"

enum { MODULI = 7, ROWS = 200, COLS = 130, STEPS = 100, TRIES = 8 };

static bool complex; /* two planes for each modulus */

static std::function<void(const ozaki_planes &)> before_product, after_product;

static cudaError_t to_residues(const residues *moduli, const ozaki_planes *planes, bool leaves_room,
                               cudaStream_t stream)
{
    before_product(*planes);
    const cudaError_t status = code_mma.to_residues(moduli, planes, leaves_room, stream);
    after_product(*planes);
    return status;
}

static const kernel_code changing = {nullptr, to_residues, nullptr, false};

static void change_nothing(const ozaki_planes &)
{
}

static int flip_count()
{
    const char *text = getenv("DGEMM_OOC_TEST_TRIALS");
    return text ? atoi(text) : 2 * MODULI * (complex ? 2 : 1);
}

struct fixture {
    residues moduli;
    std::vector<double> a, b, c;
    std::vector<int8_t> memory;
    int64_t cols = COLS; /* in the workspace, at a time */
    const int64_t steps;
    const bool trans_b; /* the faster way in the emulation */

    explicit fixture(int64_t depth = STEPS, bool transposed = true)
        : a(ROWS * depth), b(depth * COLS), c(ROWS * COLS), steps(depth), trans_b(transposed)
    {
        residues_make(MODULI, complex, &moduli);
        for (double &x : a)
            x = rand() / (double)RAND_MAX - 0.5;
        for (double &x : b)
            x = rand() / (double)RAND_MAX - 0.5;
        before_product = after_product = change_nothing;
    }

    /* The columns of the product from `first` on, of the op(A) that the workspace has if `same_a`;
     * the number of columns of planes that are found to be wrong. */
    unsigned long long multiply(uint64_t seed, int64_t first = 0, bool same_a = false)
    {
        unsigned long long wrong = 0;
        memory.resize(ozaki_workspace(MODULI, complex, ROWS, cols, steps));
        gemm g = {};
        g.type = SCALAR_DOUBLE;
        g.m = ROWS;
        g.n = COLS - first;
        g.k = steps;
        g.alpha = 1;
        g.a = a.data();
        g.lda = ROWS;
        g.trans_b = trans_b;
        g.b = b.data() + (trans_b ? first : first * steps);
        g.ldb = trans_b ? (int64_t)COLS : steps;
        g.c = c.data() + first * ROWS;
        g.ldc = ROWS;
        ozaki o = {};
        o.residues = &moduli;
        kernel own = {};
        own.code = &changing;
        o.kernel = &own;
        o.workspace = memory.data();
        o.bytes = memory.size();
        o.cols = cols;
        o.same_a = same_a;
        o.wrong = &wrong;
        o.seed = seed;
        assert_int_equal(ozaki_cuda(&g, &o, nullptr), cudaSuccess);
        return wrong;
    }

    int64_t lines(int64_t real) const
    {
        return complex ? real / 2 : real;
    }
};

static void test_right_products_pass(void **)
{
    fixture f;
    for (uint64_t seed = 0; seed < 3; seed++) {
        assert_int_equal(f.multiply(seed), 0);
        assert_int_equal(f.multiply(seed + 9, 60, true), 0);
    }
    f.cols = 128; /* less than COLS: in two parts, to which op(A) is common */
    assert_int_equal(f.multiply(1), 0);
}

/* One residue of one element is wrong: exactly one column is wrong, for any signs, of the first
 * product of an op(A) and of a later one. */
static void test_a_wrong_residue_of_c_is_found(void **)
{
    fixture f;
    int flip = 0;
    after_product = [&](const ozaki_planes &planes) {
        const int q = flip % ozaki_plane_count(&f.moduli), p = ozaki_modulus(&f.moduli, q)->p;
        const int64_t row = rand() % f.lines(ROWS), col = rand() % (COLS - (flip % 2 ? 60 : 0));
        int8_t &byte = planes.c[(q * planes.n + col) * planes.m + row];
        const int more = (byte + p / 2 + 1 + rand() % (p - 1)) % p; /* offset by p / 2 */
        byte = (int8_t)(more - p / 2);
    };
    for (const int flips = flip_count(); flip < flips; flip++)
        assert_int_equal(f.multiply((uint64_t)flip, flip % 2 ? 60 : 0, flip % 2), 1);
    after_product = change_nothing;
    assert_int_equal(f.multiply(0), 0);
}

static void change_operands(fixture &f, int flips)
{
    for (int flip = 0; flip < flips; flip++) {
        const int count = ozaki_plane_count(&f.moduli), q = flip % count, bit = 1 << rand() % 7;
        const int64_t row = rand() % f.lines(ROWS), col = rand() % COLS,
                      step = rand() % f.lines(f.steps);
        before_product = [&](const ozaki_planes &p) {
            int8_t &byte = flip / count % 2 ? p.b[(q * p.n + col) * p.k + step]
                                            : p.a[(q * p.m + row) * p.k + step];
            byte = (int8_t)(byte ^ bit);
        };
        unsigned long long found = 0;
        for (uint64_t seed = 0; seed < TRIES && found == 0; seed++)
            found = f.multiply(seed);
        assert_true(found > 0);
    }
}

/* A changed byte of an operand makes columns wrong, unless what it is multiplied by is, or adds up
 * to, 0. */
static void test_a_changed_operand_is_found(void **)
{
    fixture f;
    change_operands(f, flip_count());
}

/* op(B) in either order in memory, of more steps than a warp converts at a time. */
static void test_long_lines(void **)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        fixture f(1300, transposed);
        assert_int_equal(f.multiply(1), 0);
        assert_int_equal(f.multiply(2, 60, true), 0);
        change_operands(f, flip_count() / 2);
    }
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_products_pass),
        cmocka_unit_test(test_a_wrong_residue_of_c_is_found),
        cmocka_unit_test(test_a_changed_operand_is_found),
        cmocka_unit_test(test_long_lines),
    };
    const int failures = cmocka_run_group_tests(tests, nullptr, nullptr);
    complex = true;
    return failures + cmocka_run_group_tests(tests, nullptr, nullptr);
}
