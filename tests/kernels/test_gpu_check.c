/* The online check on the GPU, with each of its kernels in turn (exit 77 without a GPU).
 *
 * Goal and method are those of check_trials.h.  A second pass uses only floats and the kernels that
 * report bounds on their sums.  The emulation runs a few small products only. */
#include "../unit/check_trials.h"

static int open_targets; /* including the unused ones, for closing */

/* From now on only floats, with the kernels that report bounds on their sums. */
static int keep_reporting(void **state)
{
    int kept = 0;
    (void)state;
    for (int i = 0; i < target_count; i++)
        if (kernels[targets[i].algorithm]->reports_peaks[SCALAR_FLOAT]) {
            struct target target = targets[i];
            targets[i] = targets[kept];
            targets[kept++] = target;
        }
    wide_floats = true;
    trial_count *= 2;
    open_targets = target_count;
    target_count = kept;
    return kept == 0;
}

static void open_kernels(void)
{
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        const enum algorithm id = (enum algorithm)i;
        struct device *device;
        struct error err = {0};
        if (!algorithm_is_choice(id) || kernels[id]->on_cpu)
            continue; /* only those that take struct gemm alone */
        if (device_gpu_open(0, id, &device, &err) == 0)
            add_target(id, device);
        else
            printf("%s is not tested: %s\n", kernels[id]->name, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_products_pass),
        cmocka_unit_test(test_errors_are_found),
        cmocka_unit_test(test_other_products_are_refused),
    };
    enum { SKIPPED = 77 };
    if (device_gpu_count() == 0) {
        printf("skipped: no GPU\n");
        return SKIPPED;
    }
    open_kernels();
    if (target_count == 0)
        return EXIT_FAILURE;
    small_trials = strcmp(targets[0].device->info.name, "emulated") == 0;
    trial_count = trials(small_trials ? 2 : 150);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("peaks", tests, keep_reporting, NULL);
    target_count = open_targets;
    close_targets();
    return failed;
}
