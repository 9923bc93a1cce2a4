/* What a report says would make a run faster: what more memory would do is what planning with it
 * gives, and nothing is said where nothing is known. */
#include "plan_fixture.h"

#include "faster.h"
#include "quantity.h"

static const double doubles = 8;

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
    const struct advice advice = {
        .problem = &t->problem, .machine = &t->machine, .request = &t->request};
    faster_advise(&advice, &t->plan, whole, &t->report);
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

/* One with a limit of its host's memory. */
static struct machine limited(void)
{
    struct machine m = cpu();
    m.host_unlimited = m.host_memory;
    m.host_memory = (size_t)30 << 20;
    return m;
}

static void assert_says(const struct tried *t, const char *words)
{
    if (!strstr(t->report.advice, words))
        fail_msg("\"%s\" instead of \"%s\"", t->report.advice, words);
}

static void test_nothing_is_said_where_nothing_is_known(void **state)
{
    (void)state;
    const struct machine m = limited();
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        assert_string_equal(try(&m, (enum stage)stage, 0.45, true).report.advice, "");
    assert_string_equal(try(&m, STAGE_GEMM, 0.85, true).report.advice, "");
    assert_string_equal(try(&m, STAGE_CHECK, 0.95, true).report.advice, "");
    assert_string_equal(try(&m, STAGE_READ, 0.95, false).report.advice, "");
    assert_string_equal(try(&m, STAGE_IN, 0.95, false).report.advice, "");
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

static double read_times(const struct tried *t, size_t host_memory)
{
    struct machine more = t->machine;
    struct plan plan = {0};
    struct error err = {0};
    more.host_memory = host_memory;
    assert_int_equal(plan_make(&t->problem, &more, &t->request, &plan, &err), 0);
    return plan.moves.read_bytes / (doubles * (3000. * 3000 + 3000. * 3000));
}

static void test_with_more_memory_files_are_read_once(void **state)
{
    (void)state;
    const struct machine m = limited();
    const struct tried t = try(&m, STAGE_READ, 0.6, true);
    size_t mib = 0;
    double times = 0;
    assert_says(&t, "files would be read once");
    assert_int_equal(sscanf(t.report.advice,
                            "with --host-memory %zuM the files would be read once, not %lf times",
                            &mib, &times),
                     2);
    assert_true(read_times(&t, mib << 20) <= 1.05 && read_times(&t, mib << 19) > 1.05);
    assert_true(times > 1.1 && fabs(read_times(&t, m.host_memory) - times) <= 0.051);
}

static void test_there_is_no_more_memory(void **state)
{
    (void)state;
    struct machine m = limited();
    m.host_unlimited = 0; /* this is all there is */
    struct tried t = try(&m, STAGE_READ, 0.6, true);
    assert_says(&t, "with faster storage, or more memory: the files are read ");
    m.host_unlimited = (size_t)60 << 20; /* which is not enough for all */
    t = try(&m, STAGE_READ, 0.6, true);
    assert_says(&t, "with --host-memory 60M the files would be read ");
    assert_null(strstr(t.report.advice, "once"));
}

static void test_with_more_gpu_memory_less_is_copied(void **state)
{
    (void)state;
    struct machine m = make_machine(1, (size_t)20 << 20, (size_t)4 << 30, true);
    m.device_unlimited = (size_t)4 << 30;
    const struct tried t = try(&m, STAGE_IN, 0.6, true);
    assert_says(&t, "with --gpu-memory ");
    assert_says(&t, " % fewer bytes would be copied");
    m.device_unlimited = 0;
    assert_string_equal(try(&m, STAGE_IN, 0.6, true).report.advice, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_said_where_nothing_is_known),
        cmocka_unit_test(test_nothing_helps),
        cmocka_unit_test(test_with_more_memory_files_are_read_once),
        cmocka_unit_test(test_there_is_no_more_memory),
        cmocka_unit_test(test_with_more_gpu_memory_less_is_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
