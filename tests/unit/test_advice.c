/* The advice on how a run was started: when it is given, with which figures, and when it is not. */
#include "plan_fixture.h"

#include <math.h>

#include "advice.h"

enum { RANKS = 4 };

/* A computer with 4 GPUs and 64 CPUs, whose files are in memory. */
static struct machine host(int ranks, int threads)
{
    struct machine m = make_machine(ranks, (size_t)100e9, (size_t)60e9, true);
    m.threads = threads;
    m.files_in_memory = m.output_in_memory = true;
    m.disk_read_bytes_per_s = fmin(40e9, 5e9 * threads * ranks);
    m.disk_write_bytes_per_s = fmin(20e9, 3e9 * threads * ranks);
    return m;
}

struct said {
    char text[1024];
    double now;
};

/* The advice for a run of doubles on such ranks. */
static struct said advise(const struct machine *m, const struct placement *each, int gpus)
{
    static struct said said;
    struct problem p = make_problem(70000, 60000, 80000, 1);
    struct plan_request request = {.algorithm = ALGORITHM_TENSOR};
    struct placement placements[RANKS];
    struct plan plan;
    struct error err = {0};
    for (int rank = 0; rank < RANKS; rank++)
        placements[rank] = *each;
    struct simulation predicted;
    assert_int_equal(plan_make(&p, m, &request, &plan, &err), 0);
    simulate(&p, m, &request, &plan, &predicted);
    const struct advice advice = {&p, m, &request, &predicted, placements, 1, gpus};
    memset(&said, 0, sizeof said);
    FILE *out = fmemopen(said.text, sizeof said.text - 1, "w");
    assert_non_null(out);
    advice_print(&advice, out);
    fclose(out);
    said.now = predicted.wall_s;
    for (const char *line = said.text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    return said;
}

static double number_after(const struct said *said, const char *words)
{
    const char *at = strstr(said->text, words);
    return at ? strtod(at + strlen(words), NULL) : NAN;
}

static void test_few_cpus(void **state)
{
    (void)state;
    struct placement placement = {.gpu = "0000:1b:00.0", .threads = 1, .nearby = 1, .online = 64};
    struct machine few = host(1, 1), enough = host(1, 16);
    struct said said = advise(&few, &placement, 1);
    double with = number_after(&said, "with 16 for each about ");
    assert_non_null(strstr(said.text, "a rank may use 1 of 64 CPUs"));
    assert_true(fabs(number_after(&said, "takes about ") - said.now) < 0.01 * said.now);
    placement.threads = placement.nearby = 16;
    said = advise(&enough, &placement, 1);
    assert_string_equal(said.text, "");
    assert_true(fabs(with - said.now) < 0.1 * said.now);
    placement.threads = placement.nearby = 1;
    few.threads = 8; /* set by OMP_NUM_THREADS, so no advice */
    said = advise(&few, &placement, 1);
    assert_string_equal(said.text, "");
}

static void test_ranks_and_gpus(void **state)
{
    (void)state;
    struct placement placement = {.gpu = "0000:1b:00.0", .threads = 16, .nearby = 16, .online = 64};
    struct machine one = host(1, 16), four = host(4, 16);
    struct said said = advise(&one, &placement, 4);
    double with = number_after(&said, "-n 4, about ");
    assert_non_null(strstr(said.text, "1 rank and 4 GPUs on a computer"));
    said = advise(&four, &placement, 4);
    assert_string_equal(said.text, "");
    assert_true(fabs(with - said.now) < 0.1 * said.now);
}

/* Limits are lifted together; those that cost nothing are not spoken of. */
static void test_memory(void **state)
{
    (void)state;
    struct placement placement = {.gpu = "0000:1b:00.0", .threads = 16, .nearby = 16, .online = 64};
    struct machine whole = host(4, 16);
    whole.files_in_memory = whole.output_in_memory = false;
    whole.disk_read_bytes_per_s = 2e9;
    struct machine limited = whole;
    limited.device_memory = (size_t)1 << 30;
    limited.host_memory = (size_t)2 << 30;
    struct said said = advise(&limited, &placement, 4);
    assert_string_equal(said.text, ""); /* that is all there is */
    limited.device_unlimited = whole.device_memory;
    limited.host_unlimited = whole.host_memory;
    said = advise(&limited, &placement, 4);
    double with = number_after(&said, "; with 93.1 GiB and 55.9 GiB about ");
    assert_non_null(
        strstr(said.text, "--gpu-memory of 1.00 GiB and --host-memory of 2.00 GiB: this takes\n"));
    said = advise(&whole, &placement, 4);
    assert_string_equal(said.text, "");
    assert_true(fabs(with - said.now) < 0.01 * said.now);
    limited = whole;
    limited.host_memory = whole.host_memory / 2;
    limited.host_unlimited = whole.host_memory;
    said = advise(&limited, &placement, 4);
    assert_string_equal(said.text, "");
}

/* Half of the usual rate costs nothing where products are the limit, much where copies are. */
static void test_slow_link(void **state)
{
    (void)state;
    struct placement placement = {.gpu = "0000:1b:00.0", .threads = 16, .nearby = 16, .online = 64};
    struct machine usual = host(4, 16), slow = usual;
    usual.compute_capability = slow.compute_capability = 90;
    usual.device_memory = slow.device_memory = (size_t)1 << 30;
    usual.disk_read_bytes_per_s = slow.disk_read_bytes_per_s = 80e9; /* not the limit */
    machine_see_link(0, &slow);
    machine_see_link(0.9 * slow.in_bytes_per_s, &slow);
    assert_true(slow.in_bytes_per_s == usual.in_bytes_per_s);
    assert_string_equal(advise(&slow, &placement, 4).text, "");
    machine_see_link(4e9, &slow);
    assert_true(fabs(log2(slow.in_bytes_per_s / 4e9)) < 0.25);
    assert_string_equal(machine_source(&slow, &slow.in_bytes_per_s), "measured");
    struct said said = advise(&slow, &placement, 4);
    assert_non_null(strstr(said.text, "copies to a GPU reach 3."));
    assert_true(fabs(number_after(&said, "usual for such a GPU, about ") -
                     advise(&usual, &placement, 4).now) < 0.01 * said.now);

    slow = usual;
    machine_see_link(200e9, &slow);
    assert_true(slow.in_bytes_per_s > 3 * usual.in_bytes_per_s);
    assert_string_equal(advise(&slow, &placement, 4).text, "");
}

static void test_placement(void **state)
{
    (void)state;
    struct placement placement = {.gpu = "0000:1b:00.0", .threads = 16, .online = 64};
    struct machine four = host(4, 16);
    struct said said = advise(&four, &placement, 4);
    assert_non_null(strstr(said.text, "the CPUs of rank 0 and others are far from its GPU"));
    placement.nearby = 16;
    said = advise(&four, &placement, 4);
    assert_string_equal(said.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_cpus),  cmocka_unit_test(test_ranks_and_gpus),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_slow_link),
        cmocka_unit_test(test_placement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
