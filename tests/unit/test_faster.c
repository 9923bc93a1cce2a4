/* What a report says would make a run faster; nothing where nothing is known. */
#include "plan_fixture.h"

#include "advice.h"
#include "quantity.h"

/* A run on the machine, whose limiting stage is busy for that part of the time. */
struct tried {
    struct problem problem;
    struct machine machine;
    struct plan_request request;
    struct plan plan;
    struct report report;
};

static void advise(struct tried *t, bool whole)
{
    advice_after(&t->problem, whole ? &t->plan : NULL, t->machine.gpu, &t->report);
}

static struct tried try(const struct machine *m, enum stage limit, double busy, bool whole)
{
    static struct tried t;
    struct error err = {0};
    t = (struct tried){.problem = make_problem(3000, 3000, 3000, 1),
                       .machine = *m,
                       .request = {.algorithm = m->gpu ? ALGORITHM_TENSOR : ALGORITHM_CPU},
                       .report = {.wall_s = 2, .limit = limit}};
    t.report.stages[limit].busy_s[2] = 2 * busy;
    assert_int_equal(plan_make(&t.problem, m, &t.request, &t.plan, &err), 0);
    advise(&t, whole);
    return t;
}

static struct machine cpu(void)
{
    return make_machine(1, (size_t)4 << 30, (size_t)4 << 30, false);
}

static void assert_says(const struct tried *t, const char *words)
{
    if (!strstr(t->report.advice, words))
        fail_msg("\"%s\" instead of \"%s\"", t->report.advice, words);
}

static void test_nothing_is_said_where_nothing_is_known(void **state)
{
    (void)state;
    const struct machine m = cpu();
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        assert_string_equal(try(&m, (enum stage)stage, 0.45, true).report.advice, "");
    assert_string_equal(try(&m, STAGE_GEMM, 0.85, true).report.advice, "");
    assert_string_equal(try(&m, STAGE_CHECK, 0.95, true).report.advice, "");
    assert_string_equal(try(&m, STAGE_READ, 0.95, false).report.advice, "");
    assert_string_equal(try(&m, STAGE_IN, 0.95, true).report.advice, "");
}

static void test_nothing_helps(void **state)
{
    (void)state;
    const struct machine m = cpu(), gpu = make_machine(1, (size_t)4 << 30, (size_t)4 << 30, true);
    struct tried t = try(&m, STAGE_GEMM, 0.95, true);
    assert_says(&t, "more or faster processors: it multiplied nearly all the time");
    t = try(&gpu, STAGE_GEMM, 0.95, true);
    assert_says(&t, "more or faster GPUs");
    t = try(&m, STAGE_WRITE, 0.6, true);
    assert_says(&t, "only with faster storage: C is written once");
    t = try(&m, STAGE_READ, 0.6, true);
    assert_says(&t, "only with faster storage: every byte is read once");
    t.problem.matrix[OPERAND_A].pipeline.count = 1;
    advise(&t, true);
    assert_says(&t,
                "with more CPUs, or files that are not compressed: all is read and decoded once");
}

static void test_files_are_read_several_times(void **state)
{
    (void)state;
    struct machine m = cpu();
    m.host_memory = (size_t)30 << 20;
    const struct tried t = try(&m, STAGE_READ, 0.6, true);
    double times = 0;
    assert_int_equal(sscanf(t.report.advice,
                            "with faster storage, or more memory: the files are read %lf times",
                            &times),
                     1);
    const double files = sizeof(double) * (3000. * 3000 + 3000. * 3000);
    assert_true(times > 1.1 && fabs(t.plan.moves.read_bytes / files - times) <= 0.051);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_said_where_nothing_is_known),
        cmocka_unit_test(test_nothing_helps), cmocka_unit_test(test_files_are_read_several_times)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
