/* Impossible requests of the user are refused. */
#include "plan_fixture.h"

#include "error.h"

/* The complaint contains these words and is the only one. */
static void assert_refused(const struct plan_request *request, int code, const char *words)
{
    struct problem p = make_problem(1000, 1000, 1000, 1);
    struct machine m = make_machine(4, 1 << 22, 1 << 30, true);
    struct plan plan;
    struct error err = {0};
    assert_int_equal(plan_make(&p, &m, request, &plan, &err), code);
    assert_int_equal(err.complaints, 1);
    if (!strstr(err.text, words))
        fail_msg("%s", err.text);
}

static void test_impossible_requests(void **state)
{
    (void)state;
    struct plan_request request = {.grid_rows = 3, .grid_cols = 2};
    assert_refused(&request, EXIT_USAGE, "--grid 3x2 needs 6 ranks, there are 4");
    request = (struct plan_request){.tile_rows = 1001, .tile_cols = 1, .slab = 1};
    assert_refused(&request, EXIT_USAGE, "C is only 1000x1000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_impossible_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
