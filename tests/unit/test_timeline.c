/* The timeline's bins: when they become wider, no time is lost and all work stays in its place. */
#include "scratch.h"

#include <math.h>

#include "timeline.h"

enum { SPANS = 2000 };

static double uniform(double most)
{
    return most * (double)random_below(1 << 20) / (1 << 20);
}

static double sum(const double *bins, int first, int end)
{
    double total = 0;
    for (int i = first; i < end; i++)
        total += bins[i];
    return total;
}

static void assert_near(double value, double expected)
{
    assert_true(fabs(value - expected) <= 1e-9 * (1 + fabs(expected)));
}

/* Spans from microseconds to minutes, of two stages. */
static void test_sums(void **state)
{
    (void)state;
    static struct timeline t;
    double busy[2] = {0}, amount[2] = {0}, begin = 1000, end = begin;
    timeline_begin(&t, begin);
    for (int i = 0; i < SPANS; i++) {
        int stage = (int)random_below(2);
        double seconds = i % 10 ? uniform(pow(10, (double)random_below(8) - 6)) : 0;
        end += uniform(0.01);
        timeline_add(&t, stage ? STAGE_GEMM : STAGE_READ, end, end + seconds, i);
        busy[stage] += seconds;
        amount[stage] += i;
        end += seconds;
    }
    assert_near(sum(t.busy_s[STAGE_READ], 0, TIMELINE_BINS), busy[0]);
    assert_near(sum(t.busy_s[STAGE_GEMM], 0, TIMELINE_BINS), busy[1]);
    assert_near(sum(t.amount[STAGE_READ], 0, TIMELINE_BINS), amount[0]);
    assert_near(sum(t.amount[STAGE_GEMM], 0, TIMELINE_BINS), amount[1]);
    assert_true(TIMELINE_BINS * t.width > end - begin);
    assert_true(TIMELINE_BINS * t.width < 2 * (end - begin) + 1); /* but not much more */
    for (int i = 0; i < TIMELINE_BINS; i++)
        assert_true(t.busy_s[STAGE_READ][i] + t.busy_s[STAGE_GEMM][i] <= t.width * (1 + 1e-9));
}

/* Half a second of work at 1 s and a quarter at 3 s stay there, however wide the bins are. */
static void test_places(void **state)
{
    (void)state;
    for (double width = 1e-6; width < 1; width *= 4) {
        static const struct timeline none;
        static struct timeline t;
        t = none;
        timeline_begin(&t, 50);
        timeline_add(&t, STAGE_READ, 51, 51.5, 8);
        timeline_add(&t, STAGE_READ, 53, 53.25, 4);
        timeline_widen(&t, width);
        assert_true(t.width >= width);
        int before = (int)floor(1 / t.width), between = (int)ceil(2 / t.width),
            last = (int)floor(3 / t.width);
        assert_near(sum(t.busy_s[STAGE_READ], 0, before), 0);
        assert_near(sum(t.busy_s[STAGE_READ], before, between), 0.5);
        assert_near(sum(t.busy_s[STAGE_READ], between, last), 0);
        assert_near(sum(t.busy_s[STAGE_READ], last, TIMELINE_BINS), 0.25);
        assert_near(sum(t.amount[STAGE_READ], before, between), 8);
        assert_near(sum(t.amount[STAGE_READ], last, TIMELINE_BINS), 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
