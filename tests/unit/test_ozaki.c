/* Products in residues on the CPU (ozaki.h).
 *
 * Goal: every element is within its proven error bound, integers are exact, rows that are not
 * finite are the running sums of gemm.h, and the bits depend only on the operands and the number of
 * moduli.  Method: products in double-double arithmetic, and the same product computed whole and in
 * parts. */
#include <stdio.h>

#include "cpu_fixture.h"
#include "ozaki_scheme.h"
#include "quantity.h"
#include "scratch.h"

enum { THREADS = 3, ALIGNMENT = 64, SEVERAL_BLOCKS = 2 * OZAKI_BLOCK + 77 };

static void *workspace;
static bool complex; /* the moduli are those of complex products */

static void set_a(struct product *p, int64_t i, int64_t h, double value)
{
    p->gemm.trans_a ? set(&p->a, h, i, value) : set(&p->a, i, h, value);
}

static void set_b(struct product *p, int64_t h, int64_t j, double value)
{
    p->gemm.trans_b ? set(&p->b, j, h, value) : set(&p->b, h, j, value);
}

static void multiply(const struct product *p, int moduli, int threads)
{
    struct residues residues;
    struct ozaki ozaki = {
        .residues = &residues, .workspace = workspace, .bytes = ozaki_cpu_workspace()};
    residues_make(moduli, complex, &residues);
    ozaki_cpu(&p->gemm, &ozaki, threads);
    assert_gaps_are(&p->c, guard);
}

/* Numbers whose logarithm has the standard deviation `spread`. */
static double spread;

static double spread_real(void)
{
    double normal = 0;
    for (int i = 0; i < 12; i++)
        normal += random_real() / 2;
    return random_real() * exp(spread * normal);
}

/* The scaling of a row in a block. */
struct row {
    int shift;
    double sum; /* of magnitudes */
};

static struct row row_of(const struct residues *r, const double *x, int64_t count)
{
    bool finite;
    struct row row = {ozaki_row_shift(r, x, count, &finite), 0};
    assert_true(finite);
    for (int64_t h = 0; h < count; h++)
        row.sum += fabs(x[h]);
    return row;
}

/* A double-double sum. */
struct pair {
    double high, low;
};

static struct pair pair_add(struct pair s, double x)
{
    const double high = s.high + x, taken = high - s.high;
    return (struct pair){high, s.low + ((s.high - (high - taken)) + (x - taken))};
}

static double smallest(enum scalar type)
{
    return type == SCALAR_FLOAT ? 0x1p-149 : 0x1p-1074;
}

/* Checks one element against its error bound: the rounding to integers in each block, and one unit
 * in the last place for each rounded number.  Returns the error. */
static double check_element(const struct product *p, int moduli, int64_t i, int64_t j,
                            double before)
{
    const struct gemm *g = &p->gemm;
    const double u = g->type == SCALAR_FLOAT ? 0x1p-24 : 0x1p-53;
    double a[OZAKI_BLOCK], b[OZAKI_BLOCK], bound = 0, partial = fabs(before);
    struct residues r;
    residues_make(moduli, complex, &r);
    struct pair exact = {before, 0};
    for (int64_t begin = 0; begin < g->k; begin += OZAKI_BLOCK) {
        const int64_t count = min_i64(OZAKI_BLOCK, g->k - begin);
        for (int64_t h = 0; h < count; h++) {
            a[h] = a_of(p, i, begin + h);
            b[h] = b_of(p, begin + h, j);
            const double product = a[h] * b[h];
            exact = pair_add(pair_add(exact, product), fma(a[h], b[h], -product));
        }
        const struct row row = row_of(&r, a, count), col = row_of(&r, b, count);
        bound += ldexp(col.sum, -row.shift - 1) + ldexp(row.sum, -col.shift - 1) +
                 ldexp((double)count, -row.shift - col.shift - 2);
        bound += u * partial; /* C's partial sum */
        partial = fabs(exact.high) + bound;
        bound += 3 * u * partial;
    }
    const double found = get(&p->c, i, j);
    const double error = fabs((found - exact.high) - exact.low);
    if (!(error <= bound * (1 + 1e-9) + smallest(g->type)))
        fail_msg("%s %dx%dx%d, %d moduli, spread %g: C[%d,%d] is %.17g, off by %g, at most %g",
                 scalar_name(g->type), (int)g->m, (int)g->n, (int)g->k, moduli, spread, (int)i,
                 (int)j, found, error, bound);
    return error;
}

/* Checks each element of a row of a one-block product, and the norm of the row's errors. */
static void check_row(const struct product *p, int moduli, int64_t i)
{
    const struct gemm *g = &p->gemm;
    double row = 0, columns = 0, error = 0;
    struct residues r;
    residues_make(moduli, complex, &r);
    for (int64_t j = 0; j < g->n; j++) {
        error = hypot(error, check_element(p, moduli, i, j, 0));
        for (int64_t h = 0; h < g->k; h++)
            columns = hypot(columns, b_of(p, h, j));
    }
    for (int64_t h = 0; h < g->k; h++)
        row = hypot(row, a_of(p, i, h));
    const double unit = g->type == SCALAR_FLOAT ? 0x1p-24 : 0x1p-53;
    const double bound = ozaki_proven(&r, g->type, g->k) * unit * row * columns;
    if (!(error <= bound * (1 + 1e-9) + smallest(g->type)))
        fail_msg("%d moduli, spread %g: row %d is off by %g, at most %g", moduli, spread, (int)i,
                 error, bound);
}

static void check_random(enum scalar type, int trans, const int64_t size[3], int moduli)
{
    struct product p = product_make(type, trans, size[0], size[1], size[2]);
    matrix_fill(&p.a, spread_real);
    matrix_fill(&p.b, spread_real);
    matrix_fill(&p.c, random_real);
    p.gemm.beta = 1;
    struct array before = matrix_copy(&p.c);
    multiply(&p, moduli, THREADS);
    for (int64_t j = 0; j < size[1]; j++)
        for (int64_t i = 0; i < size[0]; i++)
            check_element(&p, moduli, i, j, get(&before, i, j));
    free(before.data);
    product_free(&p);
}

static void test_errors_are_within_what_is_proven(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {3, 5, 7}, {65, 3, 130}, {2, 67, 1000}, {4, 3, SEVERAL_BLOCKS}};
    static const double spreads[] = {0, 1, 2, 4, 8};
    for (int type = 0; type <= SCALAR_DOUBLE; type++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int moduli = RESIDUES_LEAST; moduli <= RESIDUES_MOST; moduli += 1 + tries(4) % 4) {
                spread = spreads[(size_t)(moduli + (int)s) % 5];
                check_random((enum scalar)type, moduli % 4, sizes[s], moduli);
            }
    spread = 0;
}

/* Fills a row or column of op(A) or op(B) with numbers of one kind: spread, with one huge number,
 * so small that products are subnormal or 0, with zeros, or cancelling in pairs. */
static void fill_kind(struct product *p, bool of_a, int64_t at, int kind)
{
    static const int scales[] = {0, 300, -300, -700};
    const double scale = ldexp(1, p->gemm.type == SCALAR_FLOAT ? 0 : scales[kind % 4]);
    double before = 0;
    for (int64_t h = 0; h < p->gemm.k; h++) {
        double x = spread_real() * scale;
        if (kind % 5 == 1 && h == p->gemm.k / 2)
            x *= p->gemm.type == SCALAR_FLOAT ? 0x1p10 : 0x1p60;
        if (kind % 5 == 2 || (kind % 5 == 3 && h % 3 > 0))
            x = 0;
        if (kind % 5 == 4 && h % 2 == 1)
            x = of_a ? -before : before;
        before = x;
        of_a ? set_a(p, at, h, x) : set_b(p, h, at, x);
    }
}

/* Elements and whole rows are within their bounds.  DGEMM_OOC_TEST_TRIALS=62500 checks a million
 * elements. */
static void test_any_block_is_within_the_bounds(void **state)
{
    enum { SIDE = 4 };
    (void)state;
    for (int trial = 0; trial < tries(400); trial++) {
        const enum scalar type = trial % 3 == 0 ? SCALAR_FLOAT : SCALAR_DOUBLE;
        const int moduli = 8 + (int)random_below(RESIDUES_MOST - 7);
        struct product p =
            product_make(type, (int)random_below(4), SIDE, SIDE, 1 + random_below(300));
        spread = (double)random_below(9);
        for (int64_t i = 0; i < SIDE; i++) {
            fill_kind(&p, true, i, (int)random_below(20));
            fill_kind(&p, false, i, (int)random_below(20));
        }
        multiply(&p, moduli, 1);
        for (int64_t i = 0; i < SIDE; i++)
            check_row(&p, moduli, i);
        product_free(&p);
    }
    spread = 0;
}

/* With 14 moduli, of complex products 15, the errors are smaller than those of running sums, and
 * each further modulus reduces them by 3 bits or more. */
static void test_errors_beside_running_sums(void **state)
{
    (void)state;
    enum { SIDE = 8, STEPS = 5000 };
    struct product p = product_make(SCALAR_DOUBLE, 0, SIDE, SIDE, STEPS);
    matrix_fill(&p.a, random_real);
    matrix_fill(&p.b, random_real);
    const int usual = ozaki_moduli(SCALAR_DOUBLE, complex);
    for (int moduli = usual; moduli <= usual + 1; moduli++) {
        double found = 0, running = 0;
        multiply(&p, moduli, 1);
        for (int64_t j = 0; j < SIDE; j++)
            for (int64_t i = 0; i < SIDE; i++) {
                struct pair exact = {0};
                double sum = 0;
                for (int64_t h = 0; h < STEPS; h++) {
                    const double a = a_of(&p, i, h), b = b_of(&p, h, j), product = a * b;
                    sum = fma(a, b, sum);
                    exact = pair_add(pair_add(exact, product), fma(a, b, -product));
                }
                found += fabs((get(&p.c, i, j) - exact.high) - exact.low);
                running += fabs((sum - exact.high) - exact.low);
            }
        if (!(found < running / (moduli == usual ? 1 : 8)))
            fail_msg("%d moduli: errors add up to %g, those of running sums to %g", moduli, found,
                     running);
    }
    product_free(&p);
}

static double random_large_integer(void)
{
    return floor(0x1p20 * random_real());
}

/* Half a unit of a row's integers, relative to its norm, is at most the kappa of ozaki_bound.c, and
 * comes close to it. */
static void test_integers_are_as_fine_as_the_bound_says(void **state)
{
    static double x[OZAKI_BLOCK];
    (void)state;
    for (int moduli = RESIDUES_LEAST; moduli <= RESIDUES_MOST; moduli++) {
        struct residues r;
        double largest = 0;
        residues_make(moduli, complex, &r);
        for (int trial = 0; trial < 300; trial++) {
            const int64_t count = trial % 3 == 0 ? OZAKI_BLOCK : 1 + trial % 50;
            const double scale = ldexp(1 + random_real(), trial % 7 * 100 - 300);
            double norm = 0;
            spread = trial % 5 * 2;
            for (int64_t h = 0; h < count; h++) {
                x[h] = spread_real() * scale;
                norm = hypot(norm, x[h]);
            }
            if (norm == 0)
                continue;
            const double half = ldexp(1, -row_of(&r, x, count).shift - 1);
            const double ratio = 2 * sqrt(OZAKI_BLOCK) * half / norm / ozaki_error(&r);
            assert_true(ratio <= 1);
            largest = ratio > largest ? ratio : largest;
        }
        assert_true(largest >
                    (moduli < 15 ? 0.95 : 0)); /* for more moduli, other terms are as large */
    }
}

static double one(void)
{
    return 1;
}

static void test_integers_are_exact(void **state)
{
    (void)state;
    double (*const kinds[])(void) = {one, random_integer, random_large_integer};
    for (int kind = 0; kind < 3; kind++)
        for (int moduli = kind == 2 ? 10 : 7; moduli <= RESIDUES_MOST; moduli++) {
            struct product p = product_make(SCALAR_DOUBLE, moduli % 4, 3, 2, OZAKI_BLOCK + 5);
            matrix_fill(&p.a, kinds[kind]);
            matrix_fill(&p.b, kinds[kind]);
            multiply(&p, moduli, 1);
            for (int64_t j = 0; j < 2; j++)
                for (int64_t i = 0; i < 3; i++) {
                    int64_t sum = 0;
                    for (int64_t h = 0; h < p.gemm.k; h++)
                        sum += (int64_t)a_of(&p, i, h) * (int64_t)b_of(&p, h, j);
                    assert_true(get(&p.c, i, j) == (double)sum);
                }
            product_free(&p);
        }
}

/* Multiplies a part of the product: rows and columns from (i, j) on, or steps from k on. */
static void multiply_part(const struct product *p, int moduli, int threads, const int64_t from[3],
                          const int64_t size[3])
{
    struct product part = *p;
    struct gemm *g = &part.gemm;
    const int64_t bytes = (int64_t)scalar_size(g->type);
    g->a = (const char *)g->a +
           bytes * (from[0] * (g->trans_a ? g->lda : 1) + from[2] * (g->trans_a ? 1 : g->lda));
    g->b = (const char *)g->b +
           bytes * (from[1] * (g->trans_b ? 1 : g->ldb) + from[2] * (g->trans_b ? g->ldb : 1));
    g->c = (char *)g->c + bytes * (from[0] + from[1] * g->ldc);
    g->m = size[0];
    g->n = size[1];
    g->k = size[2];
    g->beta = from[2] > 0;
    multiply(&part, moduli, threads);
}

static void test_parts_have_the_same_bits(void **state)
{
    (void)state;
    enum { M = 70, N = 66, CUT_M = 7, CUT_N = 65 };
    spread = 2;
    for (int trial = 0; trial < tries(8); trial++) {
        const enum scalar type = trial % 2 ? SCALAR_FLOAT : SCALAR_DOUBLE;
        const int moduli = 7 + 7 * (trial / 2 % 2);
        struct product p = product_make(type, trial % 4, M, N, OZAKI_BLOCK + 33);
        matrix_fill(&p.a, spread_real);
        matrix_fill(&p.b, spread_real);
        multiply(&p, moduli, THREADS);
        struct array whole = matrix_copy(&p.c);
        const int64_t cuts[3][3] = {{0, CUT_M, M}, {0, CUT_N, N}, {0, OZAKI_BLOCK, p.gemm.k}};
        for (int at = 0; at < 8; at++) {
            int64_t from[3], size[3];
            for (int d = 0; d < 3; d++) {
                from[d] = cuts[d][at >> (2 - d) & 1];
                size[d] = cuts[d][(at >> (2 - d) & 1) + 1] - from[d];
            }
            multiply_part(&p, moduli, 1 + at % 2, from, size);
        }
        assert_same_bits(&p.c, &whole);
        free(whole.data);
        product_free(&p);
    }
    spread = 0;
}

/* A row and a column of C are running sums in one block; the other elements are unchanged. */
static void test_what_is_not_finite_is_a_running_sum(void **state)
{
    (void)state;
    enum { SIDE = 4, ROW = 1, COL = 2 };
    for (int type = 0; type <= SCALAR_DOUBLE; type++)
        for (int kind = 0; kind < 2; kind++) {
            struct product p = product_make((enum scalar)type, kind, SIDE, SIDE, OZAKI_BLOCK + 9);
            matrix_fill(&p.a, random_real);
            matrix_fill(&p.b, random_real);
            multiply(&p, 14, 1);
            struct array finite = matrix_copy(&p.c);
            set_a(&p, ROW, OZAKI_BLOCK + 3, kind ? NAN : INFINITY);
            set_b(&p, 5, COL, -INFINITY);
            multiply(&p, 14, THREADS);
            for (int64_t j = 0; j < SIDE; j++)
                for (int64_t i = 0; i < SIDE; i++) {
                    const double found = get(&p.c, i, j);
                    if (i != ROW && j != COL)
                        assert_true(found == get(&finite, i, j));
                    else if (i == ROW && kind)
                        assert_true(isnan(found));
                    else
                        assert_true(i == ROW && j == COL ? !isfinite(found) : isinf(found));
                }
            free(finite.data);
            product_free(&p);
        }
}

/* Rows of zeros, of the smallest and of the largest numbers, and one with a single dominant
 * element. */
static void test_extreme_rows(void **state)
{
    (void)state;
    enum { ROWS = 5, STEPS = 40 };
    static const double scales[ROWS] = {0, 0x1p-1074, 0x1p-1030, 0x1p1000, 1};
    for (int moduli = RESIDUES_LEAST; moduli <= RESIDUES_MOST; moduli++) {
        struct product p = product_make(SCALAR_DOUBLE, 0, ROWS, 1, STEPS);
        matrix_fill(&p.b, random_integer);
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t h = 0; h < STEPS; h++)
                set_a(&p, i, h, scales[i] * random_integer());
        set_a(&p, 4, 7, 0x1p200);
        multiply(&p, moduli, 1);
        assert_true(get(&p.c, 0, 0) == 0 && !signbit(get(&p.c, 0, 0)));
        for (int64_t i = 1; i + 1 < ROWS; i++) {
            double sum = 0;
            for (int64_t h = 0; h < STEPS; h++)
                sum += a_of(&p, i, h) / scales[i] * b_of(&p, h, 0);
            assert_true(get(&p.c, i, 0) == ldexp(sum, ilogb(scales[i])));
        }
        check_element(&p, moduli, 4, 0, 0);
        product_free(&p);
    }
}

static void test_no_steps(void **state)
{
    (void)state;
    struct product p = product_make(SCALAR_DOUBLE, 0, 2, 3, 0);
    multiply(&p, 14, THREADS);
    for (int64_t j = 0; j < 3; j++)
        for (int64_t i = 0; i < 2; i++)
            assert_true(get(&p.c, i, j) == 0);
    product_free(&p);
}

static int setup(void **state)
{
    (void)state;
    workspace = aligned_alloc(ALIGNMENT, ozaki_cpu_workspace());
    return workspace ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(workspace);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_within_what_is_proven),
        cmocka_unit_test(test_any_block_is_within_the_bounds),
        cmocka_unit_test(test_errors_beside_running_sums),
        cmocka_unit_test(test_integers_are_as_fine_as_the_bound_says),
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_parts_have_the_same_bits),
        cmocka_unit_test(test_what_is_not_finite_is_a_running_sum),
        cmocka_unit_test(test_extreme_rows),
        cmocka_unit_test(test_no_steps),
    };
    int failures = cmocka_run_group_tests(tests, setup, teardown);
    complex = true;
    return failures + cmocka_run_group_tests(tests, setup, teardown);
}
