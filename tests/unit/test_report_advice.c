/* The advice in a report: it says that the device computes nearly all the time only if that is
 * true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "report.h"

static const char *advice(double busy)
{
    const struct plan plan = {.supers_down = 1, .supers_across = 1};
    struct report report = {.wall_s = 2, .limit = STAGE_GEMM};
    report.stages[STAGE_GEMM].busy_s[2] = 2 * busy;
    return report_advice(&report, &plan);
}

static void test_how_busy_the_device_is(void **state)
{
    (void)state;
    assert_non_null(strstr(advice(0.95), "nearly all the time"));
    assert_non_null(strstr(advice(0.91), "more devices would help"));
    assert_non_null(strstr(advice(0.85), "also waits for other stages"));
    assert_non_null(strstr(advice(0.55), "also waits for other stages"));
    assert_non_null(strstr(advice(0.45), "no stage is at work most of the time"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_how_busy_the_device_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
