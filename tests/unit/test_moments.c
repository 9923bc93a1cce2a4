/* Exact sums: the same in any order and in any parts; mean and deviation to the last digit where
 * the usual formulas have none left. */
#include "scratch.h"

#include <math.h>

#include "moments.h"

enum { COUNT = 300 };

static const int trials = 2000;

static double random_number(int spread)
{
    double mantissa = (double)random_below(INT64_C(1) << 31) * 0x1p31 +
                      (double)random_below(INT64_C(1) << 31); /* rounded to 53 bits */
    double sign = random_below(2) ? 1 : -1;
    return sign * ldexp(mantissa, (int)random_below(2 * spread + 1) - spread - 62);
}

static struct moments moments_of(const double *x, int count)
{
    struct moments m = {0};
    for (int i = 0; i < count; i++)
        moments_add(&m, x[i]);
    return m;
}

static void shuffle(double *x, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int other = (int)random_below(i + 1);
        double y = x[i];
        x[i] = x[other];
        x[other] = y;
    }
}

static void assert_same(const struct moments *a, const struct moments *b)
{
    assert_memory_equal(a->sum, b->sum, sizeof a->sum);
    assert_memory_equal(a->squares, b->squares, sizeof a->squares);
    assert_int_equal(a->missing, b->missing);
    assert_true(a->largest == b->largest);
}

/* As ranks add up what each has: by the parts of the words that any of them uses. */
static struct moments add_ranks(const double *x, int count)
{
    struct moments ranks[5] = {0}, all = {0};
    double span[MOMENT_SPAN], parts[MOMENT_PARTS], sums[MOMENT_PARTS] = {0};
    memcpy(span, moment_no_span, sizeof span);
    for (int i = 0; i < count; i++)
        moments_add(&ranks[random_below(5)], x[i]);
    for (int r = 0; r < 5; r++)
        moments_widen(&ranks[r], span);
    for (int r = 0; r < 5; r++) {
        int used = moments_to_parts(&ranks[r], span, parts);
        for (int i = 0; i < used; i++)
            sums[i] += parts[i];
        all.missing += ranks[r].missing;
        all.largest = fmax(all.largest, ranks[r].largest);
    }
    moments_from_parts(&all, span, sums);
    return all;
}

static void order_and_parts_make_no_difference(void **state)
{
    double x[COUNT];
    (void)state;
    for (int trial = 0; trial < tries(trials); trial++) {
        int spreads[] = {0, 3, 60, 200, 1000}, count = 1 + (int)random_below(COUNT);
        for (int i = 0; i < count; i++)
            x[i] = random_below(20) ? random_number(spreads[trial % 5]) : 0;
        if (trial % 7 == 0)
            x[0] = NAN;
        if (trial % 11 == 0)
            x[count - 1] = -INFINITY;
        if (trial % 3 == 0)
            x[count / 2] = 5e-324;
        struct moments one = moments_of(x, count), ranks = add_ranks(x, count);
        assert_same(&one, &ranks);
        shuffle(x, count);
        int cut = (int)random_below(count + 1);
        struct moments first = moments_of(x, cut), rest = moments_of(x + cut, count - cut);
        moments_merge(&first, &rest);
        assert_same(&one, &first);
    }
}

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > fabs(expected) * 0x1p-52)
        fail_msg("%.17g is not %.17g", value, expected);
}

/* Whole numbers around a centre, scaled, of which all sums are exact in 128 bits. */
static void mean_and_deviation_have_all_digits(void **state)
{
    const int64_t centres[] = {0, 1000000, -(INT64_C(1) << 40), INT64_C(1) << 52};
    (void)state;
    for (int trial = 0; trial < tries(trials); trial++) {
        int64_t count = 2 + random_below(COUNT), centre = centres[trial % 4], sum = 0, squares = 0;
        int scale = (int)random_below(900) - 500, missing = trial % 5 ? 0 : 3;
        struct moments m = {.missing = missing};
        for (int64_t i = 0; i < count; i++) {
            int64_t d = random_below(21) - 10;
            moments_add(&m, ldexp((double)(centre + d), scale));
            sum += d;
            squares += d * d;
        }
        double deviation, spread = (double)(count * squares - sum * sum) / (double)count;
        struct mean mean = moments_finish(&m, count + missing, true, &deviation);
        /* The centre is a multiple of the least count, so that one rounding is left. */
        long double exact = (long double)centre + (long double)sum / (long double)count;
        assert_near(mean.mean, ldexp((double)exact, scale));
        double rest = (double)(exact - (long double)(double)exact);
        assert_true(fabs(mean.rest - ldexp(rest, scale)) <= fabs(mean.mean) * 0x1p-63);
        assert_near(deviation, ldexp(sqrt(spread / (double)(count + missing - 1)), scale));
    }
}

/* However far elements spread: here the middle is all that is left of the sum, or of the spread. */
static void nothing_is_lost_of_small_elements(void **state)
{
    const double x[] = {0x1p1000, 0x1p-1000, -0x1p1000}, near[] = {0x1p1000, 0x1p1000, -0x1p-1074};
    struct moments m = moments_of(x, 3), all = moments_of(near, 3);
    double deviation;
    (void)state;
    assert_true(moments_finish(&m, 1, false, &deviation).mean == 0x1p-1000);
    for (int i = 0; i < 2; i++)
        moments_add(&all, -0x1p1000);
    assert_true(moments_finish(&all, 1, false, &deviation).mean == -0x1p-1074);
}

static void equal_elements_have_no_deviation(void **state)
{
    (void)state;
    for (int trial = 0; trial < tries(trials); trial++) {
        int64_t count = 1 + random_below(COUNT);
        double x = random_number(900), deviation;
        struct moments m = {0};
        for (int64_t i = 0; i < count; i++)
            moments_add(&m, x);
        struct mean mean = moments_finish(&m, count, false, &deviation);
        assert_true(mean.mean == x && mean.rest == 0 && deviation == 0);
    }
}

static void what_is_missing_counts_as_asked(void **state)
{
    const double x[] = {1, NAN, 3, NAN}, same[] = {0.1, 0.1, 0.1}, none[] = {NAN, NAN},
                 infinite[] = {1, INFINITY, NAN}, huge[] = {0x1p1023, -0x1p1023},
                 tiny[] = {5e-324, 5e-324, 5e-324, -5e-324};
    struct moments m = moments_of(x, 4);
    double deviation;
    (void)state;
    assert_true(moments_finish(&m, 4, true, &deviation).mean == 2);
    assert_near(deviation, sqrt(2.0 / 3));
    assert_true(moments_finish(&m, 4, false, &deviation).mean == 1);
    assert_near(deviation, sqrt(6.0 / 3));
    m = moments_of(same, 3);
    assert_true(moments_finish(&m, 3, false, &deviation).mean == 0.1 && deviation == 0);
    m = moments_of(none, 2);
    assert_true(moments_finish(&m, 2, true, &deviation).mean == 0 && deviation == 0);
    m = moments_of(infinite, 3);
    assert_true(isnan(moments_finish(&m, 3, true, &deviation).mean) && isnan(deviation));
    m = moments_of(huge, 2);
    assert_true(moments_finish(&m, 2, false, &deviation).mean == 0);
    assert_near(deviation, 0x1p1023 * sqrt(2));
    m = moments_of(tiny, 4);
    moments_finish(&m, 4, false, &deviation);
    assert_true(deviation == 5e-324);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_parts_make_no_difference),
        cmocka_unit_test(mean_and_deviation_have_all_digits),
        cmocka_unit_test(nothing_is_lost_of_small_elements),
        cmocka_unit_test(equal_elements_have_no_deviation),
        cmocka_unit_test(what_is_missing_counts_as_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
