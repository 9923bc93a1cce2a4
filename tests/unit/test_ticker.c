/* The progress display: when it is printed, and its text. */
#include "scratch.h"

#include <time.h>

#include "meter.h"
#include "ticker.h"

/* The clock stands still but for what the tests say, in place of the system's. */
static long clock_s = 1000;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = clock_s};
    return 0;
}

/* Returns what is printed while the clock advances by `time` seconds for each tally. */
static const char *told(struct ticker *t, long time, const struct tally *tallies, int count)
{
    struct ear ear = ear_open();
    for (int i = 0; i < count; i++) {
        clock_s += time;
        ticker_tell(t, &tallies[i]);
    }
    return ear_close(&ear);
}

static struct tally at(double tflop, double read_gb)
{
    struct tally tally = {.ranks = 2, .tiles = 3};
    tally.amount[STAGE_GEMM] = 1e12 * tflop;
    tally.amount[STAGE_READ] = 1e9 * read_gb;
    tally.busy_s[STAGE_GEMM] = tflop;
    return tally;
}

/* If standard error is not a terminal, as in these tests, a line is printed every minute. */
static void test_a_line_a_minute(void **state)
{
    (void)state;
    struct ticker t;
    const struct tally tallies[] = {at(60, 6), at(120, 12)};
    ticker_open(&t, PROGRESS_AUTO, false, 1e15, 5);
    ticker_begin(&t, 0.25, 8);
    assert_string_equal(told(&t, 59, tallies, 1), "");
    assert_string_equal(told(&t, 1, tallies, 1),
                        "[1:00] 31.0%  eta 11:35  1.00 TFLOP/s  multiply 50%  read 100 MB/s  "
                        "write 0.00 B/s  tile 3/8\n");
    const char *next = told(&t, 60, tallies + 1, 1);
    assert_ptr_equal(strstr(next, "[2:00] 37.0%  eta 10:35  1.00 TFLOP/s  "), next);
}

static void test_what_precedes_the_product(void **state)
{
    (void)state;
    struct ticker t;
    ticker_open(&t, PROGRESS_AUTO, false, 1, 0);
    clock_s += 61;
    struct ear ear = ear_open();
    ticker_tell_other(&t, "means", 0.305);
    ticker_tell_other(&t, "means", 0.5);
    assert_string_equal(ear_close(&ear), "[1:01] 30.5%  means\n");
}

/* The rate follows the most recent work. */
static void test_rates_follow(void **state)
{
    (void)state;
    struct ticker t;
    const struct tally tallies[] = {at(100, 1), at(101, 1), at(102, 1), at(103, 1)};
    ticker_open(&t, PROGRESS_AUTO, false, 1e15, 0);
    ticker_begin(&t, 0, 8);
    const char *lines = told(&t, 100, tallies, 4);
    double rates[4];
    for (int i = 0; i < 4; i++) {
        char unit;
        const char *eta = strstr(lines, "  eta ");
        assert_non_null(eta);
        assert_int_equal(sscanf(eta, "  eta %*s %lf %c", &rates[i], &unit), 2);
        rates[i] *= unit == 'T' ? 1000 : 1;
        lines = strchr(lines, '\n') + 1;
    }
    assert_true(rates[0] > 999 && rates[0] < 1001); /* GFLOP/s */
    assert_true(rates[3] > 9.9 && rates[3] < 10.1);
}

/* The sum of the tallies of all ranks, each after `seconds` at the given rate, added number by
 * number as in the ranks' vote. */
static struct tally of_all(int ranks, double seconds, double flops_per_s)
{
    struct tally sum = {0}, mine = {.ranks = 1, .tiles = 1};
    struct meter products = {0};
    enum { NUMBERS = sizeof sum / sizeof(double), PARTS = 1000 };
    for (int i = 0; i < PARTS; i++)
        meter_add(&products, seconds / PARTS, seconds * flops_per_s / PARTS);
    mine.amount[STAGE_GEMM] = products.amount;
    mine.busy_s[STAGE_GEMM] = products.busy_s;
    for (int rank = 0; rank < ranks; rank++)
        for (int i = 0; i < NUMBERS; i++)
            ((double *)&sum)[i] += ((const double *)&mine)[i];
    return sum;
}

/* The last of some lines, one per minute, when the ranks reach that fraction of the product. */
static const char *at_part(double part, int ranks, double flops, double seconds)
{
    enum { LINES = 10 };
    struct ticker t;
    struct tally tallies[LINES];
    double rate = part * flops / seconds / ranks;
    for (int i = 0; i < LINES; i++)
        tallies[i] = of_all(ranks, seconds - 60 * (LINES - 1 - i), rate);
    ticker_open(&t, PROGRESS_AUTO, false, flops, 0);
    ticker_begin(&t, 0, 5000);
    const char *last = strstr(told(&t, 60, tallies, LINES), "[10:00]");
    assert_non_null(last);
    return last;
}

/* Operations and nanoseconds, summed over all ranks, exceed 64 bits. */
static void test_long_runs_of_many_ranks(void **state)
{
    (void)state;
    const double month = 30 * 86400.0;
    assert_string_equal(at_part(0.58, 4, 6e19, 180000),
                        "[10:00] 58.0%  eta 36:12:25  193 TFLOP/s  multiply 100%  read 0.00 B/s  "
                        "write 0.00 B/s  tile 4/5000\n");
    assert_string_equal(at_part(0.58, 4096, 1e22, month),
                        "[10:00] 58.0%  eta 521:22:46  2.24 PFLOP/s  multiply 100%  read 0.00 B/s  "
                        "write 0.00 B/s  tile 4096/5000\n");
    assert_string_equal(at_part(0.999, 1, 3e20, month),
                        "[10:00] 99.9%  eta 43:15  116 TFLOP/s  multiply 100%  read 0.00 B/s  "
                        "write 0.00 B/s  tile 1/5000\n");
}

static void test_nothing_is_said(void **state)
{
    (void)state;
    struct ticker t;
    const struct tally tally = at(60, 6);
    ticker_open(&t, PROGRESS_AUTO, true, 1e15, 5);
    assert_string_equal(told(&t, 100, &tally, 1), "");
    ticker_open(&t, PROGRESS_NEVER, false, 1e15, 5);
    assert_string_equal(told(&t, 100, &tally, 1), "");
    ticker_open(&t, PROGRESS_ALWAYS, false, 0, 5);
    assert_string_equal(told(&t, 100, &tally, 1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_a_minute), cmocka_unit_test(test_what_precedes_the_product),
        cmocka_unit_test(test_rates_follow),    cmocka_unit_test(test_long_runs_of_many_ranks),
        cmocka_unit_test(test_nothing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
