/* The online check on the CPU device, tile by tile as in the pipeline: check_trials.h, and special
 * cases. */
#include "check_trials.h"

static struct bench small_bench(enum scalar type)
{
    return open_bench(type, 20, 30, 100, 48, 0, RANDOM);
}

/* With NaN and Inf in A and B, the affected rows and columns must be NaN or Inf, and the others are
 * checked. */
static void test_not_finite(void **state)
{
    (void)state;
    for (int variant = 0; variant < 2 * 2 * 3 * 2; variant++) {
        struct bench x = small_bench((enum scalar)(variant & 1));
        double value = variant & 2 ? NAN : INFINITY;
        int64_t l = (int64_t[]){0, 60, 99}[variant / 4 % 3];
        bool in_a = variant >= 12;
        struct findings found;
        put(x.problem.type, in_a ? x.a : x.b, in_a ? at_a(&x, 7, l) : at_b(&x, l, 7), value);
        assert_true(passes(&x, &no_fault, 2, &found, NULL));
        assert_true(findings_pass(&found) && found.not_judged == 0);
        assert_true(found.not_finite == (double)(in_a ? x.problem.n : x.problem.m));

        struct fault elsewhere = {.after = products_of(&x) - 1, .row = 3, .col = 4, .add = 1};
        assert_false(passes(&x, &elsewhere, 2, NULL, NULL));
        struct fault early = {.after = 0, .row = 3, .col = 4, .add = 1};
        assert_false(passes(&x, &early, 2, NULL, NULL));
        close_bench(&x);
    }
}

static void make_finite(struct bench *x)
{
    for (int64_t i = 0; i < x->problem.m * x->problem.n; i++)
        if (!isfinite(element(x->problem.type, x->acc, i))) {
            put(x->problem.type, x->acc, i, 0);
            return;
        }
}

static void make_infinite(struct bench *x)
{
    put(x->problem.type, x->acc, 5, INFINITY);
}

static void test_what_must_be_finite_or_not(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct bench x = small_bench((enum scalar)(variant & 1));
        struct fault fault = {.after = products_of(&x) - 1, .corrupt = make_finite};
        put(x.problem.type, variant & 2 ? x.a : x.b, 7, NAN);
        assert_false(passes(&x, &fault, 1, NULL, NULL));
        close_bench(&x);
        x = small_bench((enum scalar)(variant & 1));
        fault.corrupt = make_infinite;
        assert_false(passes(&x, &fault, 1, NULL, NULL));
        close_bench(&x);
    }
}

/* Sums that overflow are not judged, and the verdict says so; huge numbers do not hide other
 * errors. */
static void test_overflow(void **state)
{
    (void)state;
    struct bench x = small_bench(SCALAR_FLOAT);
    struct findings found;
    put(SCALAR_FLOAT, x.b, at_b(&x, 50, 7), 3e38);
    put(SCALAR_FLOAT, x.a, at_a(&x, 2, 50), 1e30);
    assert_true(passes(&x, &no_fault, 2, &found, NULL));
    assert_true(found.not_judged > 0 && !findings_pass(&found));
    close_bench(&x);
    x = small_bench(SCALAR_DOUBLE);
    put(SCALAR_DOUBLE, x.b, at_b(&x, 50, 7), 1e300);
    assert_true(passes(&x, &no_fault, 2, &found, NULL));
    assert_true(found.not_judged == (double)x.problem.m);
    struct fault elsewhere = {.after = 2, .row = 3, .col = 4, .add = 1};
    assert_false(passes(&x, &elsewhere, 2, NULL, NULL));
    close_bench(&x);
}

/* A tile that fails its check again is an error. */
static void test_fails_again(void **state)
{
    (void)state;
    struct bench x = small_bench(SCALAR_DOUBLE);
    struct error err = {0};
    struct work work = {.fault = &no_fault, .strips = 2};
    open_check(&x, 5);
    assert_true(multiply(&x, &work));
    ((double *)x.acc)[5] += 1;
    upload_sums(&x);
    x.check.slab.compares = false; /* as if a checkpoint were taken in the middle of a group */
    assert_int_equal(check_now(&x.check, x.device_acc, &err), 0);
    assert_int_equal(x.check.verdict.failures, 1);
    x.check.verdict.retry_on_failure = false;
    assert_int_equal(check_now(&x.check, x.device_acc, &err), EXIT_VERIFY);
    assert_non_null(strstr(err.text, "failed its check again"));
    check_close(&x.check);
    close_bench(&x);
}

/* The weights have both signs and magnitudes from 1/2 to 1, and depend on the seed, column and
 * check. */
static void test_weights(void **state)
{
    (void)state;
    double sum = 0, squares = 0;
    int same = 0;
    enum { COUNT = 100000 };
    for (int64_t j = 0; j < COUNT; j++) {
        double w = check_weight(7, CHECK_ONLINE, j);
        assert_true(fabs(w) >= 0.5 && fabs(w) <= 1);
        sum += w;
        squares += w * w;
        same += (w > 0) == (check_weight(7, CHECK_FULL, j) > 0);
        assert_true(w != check_weight(8, CHECK_ONLINE, j));
        assert_true(w != check_weight(7, CHECK_ONLINE, j + 1));
    }
    assert_true(fabs(sum) < 5 * sqrt(COUNT) && fabs(squares / COUNT - 7.0 / 12) < 0.01);
    assert_true(abs(2 * same - COUNT) < 5 * sqrt(COUNT));
}

/* The largest error of an element, in typical elements, against sums in long double. */
static double largest_error(const struct bench *x, const struct findings *found)
{
    const struct problem *p = &x->problem;
    double largest = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            long double sum = 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += (long double)get_a(x, i, l) * get_b(x, l, j);
            const double error = (double)(element(p->type, x->acc, i * p->n + j) - sum);
            if (error != 0)
                largest = fmax(largest, fabs(error) / typical_element(x, found, i));
        }
    return largest;
}

static void fill_with_ones(struct bench *x)
{
    for (int64_t at = 0; at < x->problem.m * x->problem.k; at++)
        put(x->problem.type, x->a, at, 1);
    for (int64_t at = 0; at < x->problem.k * x->problem.n; at++)
        put(x->problem.type, x->b, at, 1);
}

/* No element is further from the exact sum than the size that is said to be found, whatever made it
 * wrong: also where floats stagnate, at 2^24, long before the end of k. */
static void test_rounding_is_found(void **state)
{
    (void)state;
    for (int trial = 0; trial < trial_count; trial++) {
        static const int64_t depths[] = {500, 5000, 20000, 100000};
        struct bench x = open_bench((enum scalar)random_below(2), 1 + random_below(3),
                                    1 + random_below(4), depths[random_below(4)], 2048,
                                    (int)random_below(4), (enum kind)random_below(KINDS));
        struct findings found;
        assert_true(passes(&x, &no_fault, 2, &found, NULL));
        const double error = largest_error(&x, &found), size = findings_detectable(&found);
        if (error > size)
            fail_msg("%s, %s, k = %lld: an error of %g, said to be found from %g on",
                     scalar_name(x.problem.type), kind_names[x.kind], (long long)x.problem.k, error,
                     size);
        close_bench(&x);
    }
    struct bench x = open_bench(SCALAR_FLOAT, 1, 1, 40000000, 65536, 0, RANDOM);
    struct findings found;
    fill_with_ones(&x);
    assert_true(passes(&x, &no_fault, 2, &found, NULL));
    const double error = largest_error(&x, &found);
    assert_true(error > 1 && findings_detectable(&found) > error);
    assert_false(findings_pass(&found));
    close_bench(&x);
}

/* Where sums are saved and continued, what rounding added before is not forgotten. */
static void test_saved_rounding_is_kept(void **state)
{
    (void)state;
    struct bench x = open_bench(SCALAR_FLOAT, 2, 3, 100000, 2048, 0, ONE_SIGN);
    struct work work = {.fault = &no_fault, .strips = 1};
    struct error err = {0};
    open_check(&x, 7);
    assert_true(multiply(&x, &work));
    assert_int_equal(check_now(&x.check, x.device_acc, &err), 0);
    const struct findings whole = x.check.verdict.findings, saved = x.check.verdict.partial;
    assert_true(saved.rounded > 0.0005 && saved.rounded < findings_detectable(&whole));

    const struct block tile = {0, 0, x.problem.m, x.problem.n};
    x.check.rounded = saved.rounded;
    x.plan.slabs = 1; /* one more slab, of numbers that change nothing */
    memset(x.a, 0, bytes_of(&x, x.problem.m, x.problem.k));
    upload_operands(&x);
    assert_int_equal(check_begin(&x.check, &tile, &err), 0);
    assert_int_equal(check_resume(&x.check, x.device_acc, &err), 0);
    assert_int_equal(check_slab(&x.check, 0, x.device_b, x.device_acc, &err), 0);
    const struct check_product none = {tile, 0, check_part(&x.check, 2048), x.device_a,
                                       x.device_acc};
    assert_int_equal(check_rows(&x.check, &none, &err), 0);
    assert_int_equal(check_now(&x.check, x.device_acc, &err), 0);
    assert_true(x.check.verdict.partial.rounded >= saved.rounded);
    assert_true(findings_detectable(&x.check.verdict.partial) >= saved.rounded);
    check_close(&x.check);
    close_bench(&x);
}

/* Two classes have 32 columns each, so have four, and more have 256. */
static void test_classes(void **state)
{
    (void)state;
    static const struct {
        int64_t cols;
        int classes;
    } of[] = {{1, 1}, {63, 1}, {64, 2}, {127, 2}, {128, 4}, {2047, 4}, {2048, 8}, {4096, 16}};
    struct problem p = make_problem(10, 10, 10, 1);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        assert_int_equal(check_classes(&p, of[i].cols), of[i].classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),           cmocka_unit_test(test_right_products_pass),
        cmocka_unit_test(test_errors_are_found),  cmocka_unit_test(test_other_products_are_refused),
        cmocka_unit_test(test_not_finite),        cmocka_unit_test(test_what_must_be_finite_or_not),
        cmocka_unit_test(test_overflow),          cmocka_unit_test(test_fails_again),
        cmocka_unit_test(test_rounding_is_found), cmocka_unit_test(test_saved_rounding_is_kept),
        cmocka_unit_test(test_classes),
    };
    struct device *device;
    struct error err = {0};
    if (device_cpu_open(1, &device, &err) != 0)
        return EXIT_FAILURE;
    trial_count = trials(150);
    add_target(ALGORITHM_CPU, device);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_targets();
    return failed;
}
