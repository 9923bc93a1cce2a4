/* Parsing and printing of sizes and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "quantity.h"

static void test_sizes(void **state)
{
    (void)state;
    uint64_t bytes;
    int64_t extents[3];
    assert_true(quantity_parse_bytes("8G", &bytes) && bytes == (uint64_t)8 << 30);
    assert_true(quantity_parse_bytes("1.5k", &bytes) && bytes == 1536);
    assert_true(quantity_parse_bytes("512MiB", &bytes) && bytes == 512u << 20);
    assert_true(quantity_parse_bytes("123", &bytes) && bytes == 123);
    const char *const bad[] = {"", "G", "-1", "8X", "8GG", "1e30", "nan", "8G "};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(quantity_parse_bytes(bad[i], &bytes));
    assert_true(quantity_parse_extents("4x2x1", 3, extents) && extents[1] == 2);
    assert_false(quantity_parse_extents("4x2", 3, extents));
    assert_false(quantity_parse_extents("0x2x1", 3, extents));
    assert_false(quantity_parse_extents("4x2x1x", 3, extents));
    assert_string_equal(quantity_bytes(1536), "1.50 KiB");
    assert_string_equal(quantity_bytes(99), "99 B");
    assert_string_equal(quantity_rate(2.41e9), "2.41 GB/s");
    assert_string_equal(quantity_rate(9.99), "9.99 B/s");
    assert_string_equal(quantity_rate(9.995), "10.0 B/s"); /* three digits */
    assert_string_equal(quantity_rate(99.9), "99.9 B/s");
    assert_string_equal(quantity_rate(99.95), "100 B/s");
    assert_string_equal(quantity_rate(999.6), "1.00 kB/s");
    assert_string_equal(quantity_time(3723), "1:02:03");
}

static void test_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } good[] = {{"90s", 90},
                {"90", 90},
                {"10m", 600},
                {"3h50m", 13800},
                {"1.5h", 5400},
                {"1d", 86400},
                {"45:00", 2700},
                {"1:30:00", 5400},
                {"1-12:00:00", 129600},
                {"1-12:30", 131400},
                {"2-6", 194400},
                {"2d3h4m5s", 183845},
                {"0", 0},
                {"1m30", 90}};
    static const char *const bad[] = {"",   "s",  "-5s",  "5x",    "3m2h", "1:2:3:4", "1-",
                                      "1:", ":5", "5s5s", "1e300", "nan",  "5 s",     "1-2-3:00"};
    double seconds;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(quantity_parse_time(good[i].text, &seconds));
        assert_true(seconds == good[i].seconds);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (quantity_parse_time(bad[i], &seconds))
            fail_msg("\"%s\" is %g s", bad[i], seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
