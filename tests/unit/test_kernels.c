/* The records of the kernels (kernel.h), all of them.
 *
 * Goal: whatever names kernels has each of them, with what its record says: the choice for a GPU,
 * the planner's rates, names and numbers.  Method: go through the records; only what is chosen for
 * GPUs up to compute capability 9.0 is named here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gemm_simt_maps.h"
#include "plan_fixture.h"

enum { CAPABILITIES = 1000 };

static const enum scalar multiplied[] = {SCALAR_FLOAT, SCALAR_DOUBLE, SCALAR_INT8};
enum { MULTIPLIED = sizeof multiplied / sizeof *multiplied };

static bool is_of_bytes(const struct kernel *kernel)
{
    return kernel->rates[SCALAR_INT8][0].per_clock > 0;
}

static void test_records_are_whole(void **state)
{
    (void)state;
    for (int id = 0; id < ALGORITHM_COUNT; id++) {
        const struct kernel *kernel = kernels[id];
        bool chosen = false;
        for (int other = 0; other < id; other++)
            assert_string_not_equal(kernel->name, kernels[other]->name);
        for (int type = 0; type < SCALAR_COUNT; type++)
            for (int i = 0; i < KERNEL_RATES && kernel->rates[type][i].per_clock > 0; i++) {
                const struct kernel_rate *rate = &kernel->rates[type][i];
                assert_in_range(rate->least, 1, rate->most);
                if (kernel->architecture) /* of one GPU alone */
                    assert_true(rate->least == atoi(kernel->architecture) &&
                                rate->most == rate->least);
                chosen = true;
            }
        assert_true(chosen == (kernel->of_peak > 0) && kernel->of_peak < 1);
        assert_true(is_of_bytes(kernel) ||
                    (kernel->shapes >= 1 && kernel->of_best > 0 && kernel->of_best <= 1));
        assert_true(!kernel->code || kernel->on_gpu);
        assert_true(id >= SIMT_ALGORITHMS || kernel->shapes == 1 ||
                    kernel->shapes == simt_shape_count(id));
    }
}

/* Each GPU has a kernel for each type, the last one that has a rate there, which keeps the bits. */
static void test_each_gpu_has_a_kernel(void **state)
{
    (void)state;
    for (int capability = 1; capability < CAPABILITIES; capability++)
        for (int i = 0; i < MULTIPLIED; i++) {
            const enum scalar type = multiplied[i];
            const enum algorithm id = algorithm_auto(capability, type);
            const struct kernel_rate *rate = kernels[id]->rates[type];
            while (capability < rate->least || capability > rate->most)
                assert_in_range(++rate - kernels[id]->rates[type], 1, KERNEL_RATES - 1);
            assert_true(kernels[id]->same_bits || is_of_bytes(kernels[id]));
            assert_true(rate->per_clock == algorithm_peak(capability, type));
            for (int later = (int)id + 1; later < ALGORITHM_COUNT; later++)
                for (int r = 0; r < KERNEL_RATES; r++)
                    assert_true(capability < kernels[later]->rates[type][r].least ||
                                capability > kernels[later]->rates[type][r].most);
        }
}

static void test_what_is_chosen(void **state)
{
    static const struct {
        int capability;
        enum algorithm id[MULTIPLIED];
        double per_clock[MULTIPLIED];
    } gpus[] = {
        {70, {ALGORITHM_VECTOR, ALGORITHM_VECTOR, ALGORITHM_DP4A}, {256, 4, 512}},
        {75, {ALGORITHM_VECTOR, ALGORITHM_VECTOR, ALGORITHM_DP4A}, {128, 4, 512}},
        {80, {ALGORITHM_TENSOR, ALGORITHM_TENSOR, ALGORITHM_MMA}, {128, 128, 4096}},
        {86, {ALGORITHM_TENSOR, ALGORITHM_ASYNC, ALGORITHM_MMA}, {256, 4, 2048}},
        {90, {ALGORITHM_TENSOR, ALGORITHM_TMA, ALGORITHM_WGMMA}, {256, 256, 8192}},
    };
    (void)state;
    for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++)
        for (int i = 0; i < MULTIPLIED; i++) {
            assert_int_equal(algorithm_auto(gpus[g].capability, multiplied[i]), gpus[g].id[i]);
            assert_true(algorithm_peak(gpus[g].capability, multiplied[i]) == gpus[g].per_clock[i]);
        }
    assert_int_equal(algorithm_auto(0, SCALAR_FLOAT), ALGORITHM_CPU);
    assert_int_equal(algorithm_auto(0, SCALAR_DOUBLE), ALGORITHM_CPU);
}

/* The rate of a GPU is that of the kernel chosen there, and the rate of a plan, that of the kernel
 * that was asked for. */
static void test_the_planner_has_the_rates(void **state)
{
    struct problem p = make_problem(2000, 2000, 2000, 1);
    (void)state;
    for (int i = 0; i < MULTIPLIED; i++)
        for (int capability = 1; capability < CAPABILITIES; capability++) {
            const struct device_info gpu = {
                .units = 100, .clock_khz = 1000000, .compute_capability = capability};
            assert_true(machine_gpu_peak(&gpu, multiplied[i]) ==
                        1e11 * algorithm_peak(capability, multiplied[i]));
        }
    for (int id = 0; id < ALGORITHM_COUNT; id++) {
        struct machine m = make_machine(1, (size_t)8 << 30, (size_t)8 << 30, id != ALGORITHM_CPU);
        struct plan_request request = {.algorithm = (enum algorithm)id};
        struct plan plan;
        struct error err = {0};
        if (is_of_bytes(kernels[id]))
            continue;
        assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
        const double part = m.gpu ? 1 : (double)plan.compute_threads / m.threads;
        assert_true(plan.gemm_flops_per_s ==
                    part * m.gemm_flops_per_s[SCALAR_DOUBLE] * kernels[id]->of_best);
    }
}

/* Whether the list has the word, between commas. */
static bool lists(const char *list, const char *word)
{
    char all[512], wanted[64];
    snprintf(all, sizeof all, ", %s, ", list);
    snprintf(wanted, sizeof wanted, ", %s, ", word);
    return strstr(all, wanted) != NULL;
}

static void test_names_and_numbers(void **state)
{
    int moduli;
    (void)state;
    for (int id = 0; id < ALGORITHM_COUNT; id++) {
        const bool here = kernels[id]->on_gpu || kernels[id]->on_cpu;
        const bool choice = here && !is_of_bytes(kernels[id]);
        const bool numbered = choice && id < ALGORITHM_CPU;
        char number[16];
        snprintf(number, sizeof number, "%d", id);
        assert_int_equal(algorithm_is_choice((enum algorithm)id), choice);
        assert_int_equal(algorithm_parse(kernels[id]->name, &moduli), choice ? id : ALGORITHM_NONE);
        assert_int_equal(algorithm_parse(number, &moduli), numbered ? id : ALGORITHM_NONE);
        assert_int_equal(lists(algorithm_names(), kernels[id]->name), choice);
        assert_true(strstr(algorithm_ladder(), kernels[id]->name) || id >= ALGORITHM_CPU);
    }
    static const char *const others[] = {
        "",       "=",      "-1",      "01",       "naiv",      "CPU",
        "cpu:14", "ozaki:", "ozaki:5", "ozaki:19", "ozaki:014", "ozaki:14 "};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(algorithm_parse(others[i], &moduli), ALGORITHM_NONE);
    assert_int_equal(algorithm_parse("ozaki:14", &moduli), ALGORITHM_OZAKI);
    assert_int_equal(moduli, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_are_whole), cmocka_unit_test(test_each_gpu_has_a_kernel),
        cmocka_unit_test(test_what_is_chosen),    cmocka_unit_test(test_the_planner_has_the_rates),
        cmocka_unit_test(test_names_and_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
