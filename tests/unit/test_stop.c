/* When the time limit asks for a stop. */
#include "scratch.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "meter.h"
#include "stop.h"

enum { FOREVER = 1000000 };

/* A run that began `ago` seconds before, of `max_s`, whose stops are planned to take `stop_s`. */
static void begin(double ago, double max_s, double stop_s)
{
    stop_begin(clock_now() - ago, max_s, FOREVER, stop_s);
    stop_measured(0);
}

/* A job that ends in so many seconds. */
static void set_end(int seconds)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)time(NULL) + seconds);
    setenv("SLURM_JOB_END_TIME", text, 1);
}

static void test_end_of_the_job(void **state)
{
    (void)state;
    set_end(60);
    begin(0, 0, 5);
    assert_int_equal(stop_level(true), STOP_NOT);
    begin(0, 0, 30);
    assert_int_equal(stop_level(true), STOP_END);
    assert_string_equal(stop_reason(), "the end of the job");
    assert_int_equal(stop_level(false), STOP_NOT);
    set_end(-20); /* of another job */
    begin(0, 0, 30);
    assert_int_equal(stop_level(true), STOP_NOT);
    unsetenv("SLURM_JOB_END_TIME");
}

/* A storage that is slower than planned is known by its first save. */
static void test_measured_stops(void **state)
{
    (void)state;
    set_end(60);
    begin(0, 0, 0.1);
    stop_measured(10);
    assert_int_equal(stop_level(true), STOP_NOT);
    stop_measured(40);
    assert_int_equal(stop_level(true), STOP_END);
    stop_measured(1);
    assert_int_equal(stop_level(true), STOP_NOT);
    unsetenv("SLURM_JOB_END_TIME");
}

static void test_half_of_a_time_limit_is_used(void **state)
{
    (void)state;
    begin(40, 100, 1000);
    assert_int_equal(stop_level(true), STOP_NOT);
    stop_measured(1000);
    assert_int_equal(stop_level(true), STOP_NOT);
    begin(60, 100, 0);
    assert_int_equal(stop_level(true), STOP_NOT);
    stop_measured(1000);
    assert_int_equal(stop_level(true), STOP_END);
    assert_string_equal(stop_reason(), "--max-time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_end_of_the_job),
                                       cmocka_unit_test(test_measured_stops),
                                       cmocka_unit_test(test_half_of_a_time_limit_is_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
