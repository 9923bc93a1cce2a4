/* The progress line: when it is printed, and its text. */
#include "scratch.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "meter.h"
#include "phase.h"
#include "ticker.h"

/* The clock stands still but for what the tests say, in place of the system's. */
static long clock_s = 1000;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = clock_s};
    return 0;
}

/* The line's thread works when the tests say so, until it would wait. */
static void *(*draw_line)(void *);
static jmp_buf waits;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *),
                   void *argument)
{
    (void)thread, (void)attributes, (void)argument;
    draw_line = work;
    return EAGAIN; /* there is none to join */
}

int pthread_cond_timedwait(pthread_cond_t *more, pthread_mutex_t *lock, const struct timespec *time)
{
    (void)more, (void)time;
    pthread_mutex_unlock(lock);
    longjmp(waits, 1);
}

/* Returns what is printed while the clock advances by `time` seconds for each moment. */
static const char *told(struct ticker *t, long time, const struct run_totals *moments, int count)
{
    struct ear ear = ear_open();
    for (int i = 0; i < count; i++) {
        clock_s += time;
        ticker_tell(t, &moments[i]);
    }
    return ear_close(&ear);
}

static struct run_totals at(double tflop, double read_gb)
{
    struct run_totals done = {.ranks = 2, .tiles = 3};
    done.amount[STAGE_GEMM] = 1e12 * tflop;
    done.amount[STAGE_READ] = 1e9 * read_gb;
    done.busy_s[STAGE_GEMM] = tflop;
    return done;
}

/* A log has a line every minute. */
static void test_a_line_a_minute(void **state)
{
    (void)state;
    struct ticker t = {.flops = 1e15, .tail_s = 5};
    const struct run_totals moments[] = {at(60, 6), at(120, 12)};
    phases_open(false);
    ticker_begin(&t, 0.25, 8);
    assert_string_equal(told(&t, 59, moments, 1), "");
    assert_string_equal(
        told(&t, 1, moments, 1),
        "[1:00] product 31.0%  eta 11:35  1.00 TFLOP/s  multiply 50%  read 99.9 MB/s  "
        "write 0.00 B/s  tile 3/8\n");
    const char *next = told(&t, 60, moments + 1, 1);
    assert_ptr_equal(strstr(next, "[2:00] product 37.0%  eta 10:35  1.00 TFLOP/s  "), next);
    phases_close();
}

/* What the thread prints when so many bytes more are done, `seconds` later. */
static const char *counted(double bytes, long seconds)
{
    struct ear ear = ear_open();
    phase_count(bytes);
    clock_s += seconds;
    if (setjmp(waits) == 0)
        draw_line(NULL);
    return ear_close(&ear);
}

static void test_a_phase_counts_bytes(void **state)
{
    (void)state;
    phases_open(false);
    phase_begin("means of A", 10e9);
    assert_string_equal(counted(0, 59), "");
    assert_string_equal(counted(3e9, 1), "[1:00] means of A 30.0%  eta 2:20  2.79 GiB of 9.31 GiB  "
                                         "50.0 MB/s\n");
    assert_string_equal(counted(0, 60), "[2:00] means of A 30.0%  eta 2:20  2.79 GiB of 9.31 GiB  "
                                        "50.0 MB/s\n");
    assert_string_equal(counted(8e9, 60), "[3:00] means of A 100.0%  eta 0:00  9.31 GiB of 9.31 GiB"
                                          "  58.3 MB/s\n");
    phase_begin("planning", 0);
    assert_string_equal(counted(0, 59), "");
    assert_string_equal(counted(0, 3), "[4:02] planning  for 1:02\n");
    phase_end();
    assert_string_equal(counted(1, 100), "");
    phases_close();
}

/* A live line shows the end of each phase whose amount is known, and goes when the phase does. */
static void test_a_live_line_shows_the_end(void **state)
{
    (void)state;
    phases_open(true);
    phase_begin("means of A", 1e9);
    assert_string_equal(counted(5e8, 1), "\r[0:01] means of A 50.0%  eta 0:01  477 MiB of 954 MiB  "
                                         "500 MB/s\033[K");
    phase_count(5e8);
    struct ear ear = ear_open();
    phase_hide();
    phase_end();
    phase_end();
    assert_string_equal(ear_close(&ear),
                        "\r\033[K\r[0:01] means of A 100.0%  eta 0:00  954 MiB of 954 MiB  "
                        "1.00 GB/s\033[K\r\033[K");
    phases_close();
}

/* The rate follows the most recent work. */
static void test_rates_follow(void **state)
{
    (void)state;
    struct ticker t = {.flops = 1e15};
    const struct run_totals moments[] = {at(100, 1), at(101, 1), at(102, 1), at(103, 1)};
    phases_open(false);
    ticker_begin(&t, 0, 8);
    const char *lines = told(&t, 100, moments, 4);
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
    phases_close();
}

/* The sum of the moments of all ranks, each after `seconds` at the given rate, added number by
 * number as in the ranks' vote. */
static struct run_totals of_all(int ranks, double seconds, double flops_per_s)
{
    struct run_totals sum = {0}, mine = {.ranks = 1, .tiles = 1};
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
    struct ticker t = {.flops = flops};
    struct run_totals moments[LINES];
    double rate = part * flops / seconds / ranks;
    for (int i = 0; i < LINES; i++)
        moments[i] = of_all(ranks, seconds - 60 * (LINES - 1 - i), rate);
    phases_open(false);
    ticker_begin(&t, 0, 5000);
    const char *last = strstr(told(&t, 60, moments, LINES), "[10:00]");
    assert_non_null(last);
    phases_close();
    return last;
}

/* Operations and nanoseconds, summed over all ranks, exceed 64 bits. */
static void test_long_runs_of_many_ranks(void **state)
{
    (void)state;
    const double month = 30 * 86400.0;
    assert_string_equal(
        at_part(0.58, 4, 6e19, 180000),
        "[10:00] product 58.0%  eta 36:12:25  193 TFLOP/s  multiply 100%  read 0.00 B/s  "
        "write 0.00 B/s  tile 4/5000\n");
    assert_string_equal(
        at_part(0.58, 4096, 1e22, month),
        "[10:00] product 58.0%  eta 521:22:46  2.24 PFLOP/s  multiply 100%  read 0.00 B/s  "
        "write 0.00 B/s  tile 4096/5000\n");
    assert_string_equal(
        at_part(0.999, 1, 3e20, month),
        "[10:00] product 99.9%  eta 43:15  116 TFLOP/s  multiply 100%  read 0.00 B/s  "
        "write 0.00 B/s  tile 1/5000\n");
}

/* Other ranks than rank 0, and all with -q. */
static void test_nothing_is_said(void **state)
{
    (void)state;
    struct ticker t = {.flops = 1e15, .tail_s = 5};
    const struct run_totals done = at(60, 6);
    ticker_begin(&t, 0, 8);
    assert_string_equal(told(&t, 100, &done, 1), "");
    phase_begin("means of A", 10e9);
    assert_string_equal(counted(3e9, 100), "");
    phase_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_a_minute),
        cmocka_unit_test(test_a_phase_counts_bytes),
        cmocka_unit_test(test_a_live_line_shows_the_end),
        cmocka_unit_test(test_rates_follow),
        cmocka_unit_test(test_long_runs_of_many_ranks),
        cmocka_unit_test(test_nothing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
