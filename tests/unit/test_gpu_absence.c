/* The reasons why no GPU can be used, each with its remedy, and whether the computer has a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu_absence.h"

static void assert_says(struct gpu_facts facts, const char *cause, const char *remedy)
{
    char text[512];
    assert_string_equal(gpu_absence_text(&facts, text, sizeof text), text);
    assert_non_null(strstr(text, cause));
    assert_non_null(strstr(text, remedy));
}

static void test_reasons(void **state)
{
    (void)state;
    struct gpu_facts none = {.error = "no CUDA-capable device is detected", .driver = 12040};
    assert_says(none, "\"no CUDA-capable device is detected\"", "batch system");
    const char *const hides[] = {"", "-1", "NoDevFiles"};
    for (int i = 0; i < 3; i++) {
        none.visible = hides[i];
        assert_says(none, "hides all GPUs", "unset it");
    }
    none.visible = "7";
    assert_says(none, "CUDA_VISIBLE_DEVICES is \"7\"", "nvidia-smi");
    struct gpu_facts driver = {
        .error = "insufficient", .needs_driver = true, .driver = 11040, .runtime = 13010};
    assert_says(driver, "driver is for CUDA 11.4, this build needs 13.1", "update the driver");
    driver.driver = 0;
    assert_says(driver, "no NVIDIA driver", "nvidia-smi");
    const struct gpu_facts old = {.index = 1, .capability = 70, .oldest = 80};
    assert_says(old, "GPU 1 has compute capability 7.0, and this build has kernels for 8.0",
                "CUDA_VISIBLE_DEVICES");
}

static void write_line(const char *folder, const char *file, const char *line)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fprintf(stream, "%s\n", line);
    fclose(stream);
}

static void test_presence(void **state)
{
    (void)state;
    char root[] = "/tmp/dgemm_ooc_pci_XXXXXX", device[64];
    assert_non_null(mkdtemp(root));
    assert_false(gpu_is_present(root));
    snprintf(device, sizeof device, "%s/0000:1b:00.0", root);
    assert_int_equal(mkdir(device, 0700), 0);
    write_line(device, "vendor", "0x10de");
    write_line(device, "class", "0x040300"); /* the audio function of a GPU */
    assert_false(gpu_is_present(root));
    write_line(device, "class", "0x030200");
    assert_true(gpu_is_present(root));
    write_line(device, "vendor", "0x8086");
    assert_false(gpu_is_present(root));
    char remove[96];
    snprintf(remove, sizeof remove, "rm -r %s", root);
    assert_int_equal(system(remove), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reasons),
                                       cmocka_unit_test(test_presence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
