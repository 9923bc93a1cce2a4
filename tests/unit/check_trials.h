/* Random products, correct and wrong ones, checked by every target.
 *
 * Goal: correct products pass, whatever their data; the check finds an error in one element that is
 * as large as the error it promises to detect, wherever and whenever it occurs; it also finds a
 * product of other operands.  Method: random shapes, types, slabs, transpositions, kinds of data
 * and, if there are several, kernels, from DGEMM_OOC_TEST_SEED.  DGEMM_OOC_TEST_TRIALS sets the
 * number of trials; DGEMM_OOC_TEST_TABLE=1 prints the share of errors found, by size. */
#pragma once

#include "check_fixture.h"

static int trial_count;   /* the number of products per test */
static bool small_trials; /* omit the long products */
static bool wide_floats;  /* floats only, with enough columns for peaks (check_size.h) */

/* One in a hundred products is very long: a million steps of k, or a hundred thousand columns. */
static struct bench long_bench(void)
{
    bool deep = random_below(2);
    int64_t k = deep ? 1000000 : 100, n = deep ? 8 : 100000;
    return open_bench((enum scalar)random_below(2), 4, n, k, deep ? 65536 : 64,
                      (int)random_below(4), (enum kind)random_below(KINDS));
}

static struct bench random_bench(void)
{
    static const int64_t lengths[] = {1, 3, 64, 100, 700, 1500, 5000};
    int64_t k = lengths[random_below(7)], most = k > 1000 ? 40 : 200;
    if (wide_floats)
        return open_bench(SCALAR_FLOAT, 1 + random_below(40), 256 + random_below(400), k,
                          GEMM_QUANTUM * (1 + random_below(k / GEMM_QUANTUM + 1)),
                          (int)random_below(4), (enum kind)random_below(KINDS));
    if (!small_trials && random_below(100) == 0)
        return long_bench();
    return open_bench((enum scalar)random_below(2), 1 + random_below(most),
                      1 + random_below(random_below(4) ? most : 3 * most), k,
                      GEMM_QUANTUM * (1 + random_below(k / GEMM_QUANTUM + 1)), (int)random_below(4),
                      (enum kind)random_below(KINDS));
}

/* No correct product is refused. */
static void test_right_products_pass(void **state)
{
    double largest[2][KINDS] = {{0}};
    int powerless[2][KINDS] = {{0}};
    (void)state;
    for (int trial = 0; trial < trial_count; trial++) {
        struct bench x = random_bench();
        struct findings found;
        if (!passes(&x, &no_fault, 2, &found, NULL))
            fail_msg("a right product failed: %s, %s, %lld x %lld x %lld",
                     scalar_name(x.problem.type), kind_names[x.kind], (long long)x.problem.m,
                     (long long)x.problem.n, (long long)x.problem.k);
        largest[x.problem.type][x.kind] = fmax(largest[x.problem.type][x.kind], found.ratio);
        powerless[x.problem.type][x.kind] += !findings_pass(&found);
        close_bench(&x);
    }
    for (int type = 0; type < 2; type++)
        for (int kind = 0; kind < KINDS; kind++)
            print_message("%s, %s: the largest residual is %.2g of its limit, %d not checked\n",
                          scalar_name((enum scalar)type), kind_names[kind], largest[type][kind],
                          powerless[type][kind]);
}

/* What the findings of the newest check are in units of, in a row; 0: of zeros. */
static double typical_element(const struct bench *x, const struct findings *found, int64_t row)
{
    const int64_t n = x->problem.n;
    bool zeros = true;
    for (int64_t j = 0; j < n; j++)
        zeros &= element(x->problem.type, x->acc, row * n + j) == 0;
    return zeros ? 0 : sqrt(found->squares / found->elements) * x->reach[row] / sqrt((double)n);
}

/* The number of products of a row. */
static int64_t products_of(const struct bench *x)
{
    bool has_peaks = check_has_peaks(x->target->algorithm, x->problem.type, x->problem.n);
    int64_t group = check_group_steps(&x->problem, x->problem.n, has_peaks);
    int64_t whole = min_i64(group, x->plan.slab);
    int64_t last = x->problem.k - (x->plan.slabs - 1) * x->plan.slab;
    return (x->plan.slabs - 1) * ceil_div(x->plan.slab, whole) + ceil_div(last, whole);
}

enum { SIZES = 24 };

/* Errors range from a thousandth to a thousand times the size that the check promises to detect. */
static void test_errors_are_found(void **state)
{
    int struck[2][SIZES] = {{0}}, found[2][SIZES] = {{0}};
    (void)state;
    for (int trial = 0; trial < trial_count; trial++) {
        struct bench x = random_bench();
        struct findings right;
        assert_true(passes(&x, &no_fault, 2, &right, NULL));
        const double size = findings_detectable(&right);
        for (int i = 0; i < 4 && size > 0 && isfinite(size); i++) {
            struct fault fault = {.after = random_below(products_of(&x)),
                                  .row = random_below(x.problem.m),
                                  .col = random_below(x.problem.n)};
            assert_true(passes(&x, &no_fault, 2, NULL, NULL));
            double promised = size * typical_element(&x, &right, fault.row), change;
            if (promised == 0)
                continue;
            fault.add = pow(10, 3 * random_real()) * promised * (random_below(2) ? 1 : -1);
            bool hit = !passes(&x, &fault, 2, NULL, &change);
            double part = change / promised; /* as large as rounding has left it */
            int bin = (int)(SIZES * (log10(fmax(part, 1e-9)) + 3) / 6);
            bin = bin < 0 ? 0 : bin >= SIZES ? SIZES - 1 : bin;
            struck[x.problem.type][bin]++;
            found[x.problem.type][bin] += hit;
            if (!hit && part > 1.05)
                fail_msg("an error of %g times what would be found was not: %s, %s, %lld x %lld x "
                         "%lld",
                         part, scalar_name(x.problem.type), kind_names[x.kind],
                         (long long)x.problem.m, (long long)x.problem.n, (long long)x.problem.k);
        }
        close_bench(&x);
    }
    for (int bin = 0; bin < SIZES && getenv("DGEMM_OOC_TEST_TABLE"); bin++)
        print_message("%8.2g of the printed size: floats %4d of %4d, doubles %4d of %4d\n",
                      pow(10, 6 * (bin + 0.5) / SIZES - 3), found[0][bin], struck[0][bin],
                      found[1][bin], struck[1][bin]);
}

/* Faults in more than one element. */

static void zero(struct bench *x)
{
    memset(x->acc, 0, (size_t)(x->problem.m * x->problem.n) * scalar_size(x->problem.type));
}

static void negate(struct bench *x)
{
    for (int64_t i = 0; i < x->problem.m * x->problem.n; i++)
        put(x->problem.type, x->acc, i, -element(x->problem.type, x->acc, i));
}

static void exchange(struct bench *x, int64_t i, int64_t j)
{
    double first = element(x->problem.type, x->acc, i);
    put(x->problem.type, x->acc, i, element(x->problem.type, x->acc, j));
    put(x->problem.type, x->acc, j, first);
}

static void swap_columns(struct bench *x)
{
    int64_t n = x->problem.n, i = random_below(n), j = (i + 1 + random_below(n - 1)) % n;
    for (int64_t row = 0; row < x->problem.m; row++)
        exchange(x, row * n + i, row * n + j);
}

static void swap_rows(struct bench *x)
{
    int64_t n = x->problem.n, m = x->problem.m, i = random_below(m);
    int64_t j = (i + 1 + random_below(m - 1)) % m;
    for (int64_t col = 0; col < n; col++)
        exchange(x, i * n + col, j * n + col);
}

/* Shifts C by a row and a column, as a wrong leading dimension does. */
static void shift(struct bench *x)
{
    int64_t n = x->problem.n, m = x->problem.m;
    for (int64_t i = 0; i + n + 1 < m * n; i++)
        put(x->problem.type, x->acc, i, element(x->problem.type, x->acc, i + n + 1));
}

/* Replaces the sums by those of other operands. */
static void exchange_operands(struct bench *x)
{
    for (int64_t i = 0; i < x->problem.m * x->problem.n; i++)
        put(x->problem.type, x->acc, i,
            element(x->problem.type, x->acc, (i * 7919 + 13) % (x->problem.m * x->problem.n)));
}

static void test_other_products_are_refused(void **state)
{
    static const struct {
        const char *name;
        void (*corrupt)(struct bench *x);
    } ways[] = {{"all zero", zero},
                {"negated", negate},
                {"two columns exchanged", swap_columns},
                {"two rows exchanged", swap_rows},
                {"shifted", shift},
                {"other elements", exchange_operands}};
    int tried[6][2] = {{0}}, passed[6][2] = {{0}};
    (void)state;
    for (int trial = 0; trial < trial_count; trial++) {
        struct bench x = random_bench();
        struct findings right;
        assert_true(passes(&x, &no_fault, 1, &right, NULL));
        bool has_power = findings_pass(&right) && findings_detectable(&right) > 0;
        for (int way = 0; way < 6 && has_power && x.problem.m > 2 && x.problem.n > 2; way++) {
            const struct fault fault = {.after = products_of(&x) - 1, .corrupt = ways[way].corrupt};
            bool all =
                x.kind == RANDOM || way < 2; /* in other kinds the change may be below rounding */
            tried[way][x.problem.type]++;
            if (!passes(&x, &fault, 1, NULL, NULL))
                continue;
            passed[way][x.problem.type]++;
            bool classes = x.problem.n >= 128; /* several classes; they do not agree by chance */
            if (all && (x.problem.type == SCALAR_DOUBLE || (way != 2 && (classes || way != 3))))
                fail_msg("%s passed: %s, %s, %lld x %lld x %lld, and an error of %g would have "
                         "been found",
                         ways[way].name, scalar_name(x.problem.type), kind_names[x.kind],
                         (long long)x.problem.m, (long long)x.problem.n, (long long)x.problem.k,
                         findings_detectable(&right));
        }
        close_bench(&x);
    }
    for (int way = 0; way < 6; way++)
        print_message("%s: %d of %d floats passed, %d of %d doubles\n", ways[way].name,
                      passed[way][0], tried[way][0], passed[way][1], tried[way][1]);
}
