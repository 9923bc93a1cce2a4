/* Binding near a GPU: what the process may use before and after, as the kernel says. */
#include "scratch.h"

#include <sched.h>
#include <sys/wait.h>

#include "place.h"

/* hwloc wants it whole. */
static const char *local_cpus(void)
{
    static char path[4096];
    assert_non_null(getcwd(path, sizeof path - 16));
    return strcat(path, "/local_cpus");
}

static void write_mask(const char *mask)
{
    FILE *f = fopen(local_cpus(), "w");
    assert_non_null(f);
    fputs(mask, f);
    fclose(f);
}

static int first_cpu(const cpu_set_t *set)
{
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, set))
        cpu++;
    return cpu;
}

/* In a child, since a binding cannot be undone for the tests that follow. */
static int in_child(int (*test)(const cpu_set_t *before))
{
    cpu_set_t before;
    int status;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) < 2 || CPU_COUNT(&before) < sysconf(_SC_NPROCESSORS_ONLN))
        skip();
    pid_t child = fork();
    if (child == 0)
        _exit(test(&before));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A mask of the last CPU, in the kernel's words of 32. */
static void near_last(const cpu_set_t *set)
{
    char mask[1024] = "";
    int last = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, set))
            last = cpu;
    for (int word = last / 32; word >= 0; word--)
        sprintf(mask + strlen(mask), "%s%08x", *mask ? "," : "",
                word == last / 32 ? 1u << last % 32 : 0);
    write_mask(mask);
}

static int binds(const cpu_set_t *before)
{
    cpu_set_t after;
    struct place place;
    near_last(before);
    place_near("0000:1B:00.0", local_cpus(), true, &place);
    sched_getaffinity(0, sizeof after, &after);
    return CPU_COUNT(&after) != 1 || place.bound != PLACE_NEAR ||
           atoi(place.cpus) != first_cpu(&after) || strcmp(place.gpu, "0000:1B:00.0") != 0;
}

static int stays_when_not_wanted(const cpu_set_t *before)
{
    cpu_set_t after;
    struct place place;
    near_last(before);
    place_near("0000:1B:00.0", local_cpus(), false, &place);
    sched_getaffinity(0, sizeof after, &after);
    return !CPU_EQUAL(before, &after) || place.bound != PLACE_FREE;
}

static int stays_where_the_launcher_put_it(const cpu_set_t *before)
{
    cpu_set_t one, after;
    struct place place;
    CPU_ZERO(&one);
    CPU_SET((size_t)first_cpu(before), &one);
    sched_setaffinity(0, sizeof one, &one);
    near_last(before);
    place_near("0000:1B:00.0", local_cpus(), true, &place);
    sched_getaffinity(0, sizeof after, &after);
    return !CPU_EQUAL(&one, &after) || place.bound != PLACE_LAUNCHER;
}

static int stays_without_a_place(const cpu_set_t *before)
{
    static const char *const masks[] = {"00000000", "", "no mask"};
    cpu_set_t after;
    struct place place;
    int wrong = 0;
    for (int i = 0; i < 3; i++) {
        write_mask(masks[i]);
        place_near("0000:1B:00.0", local_cpus(), true, &place);
        wrong += place.bound != PLACE_FREE;
    }
    place_near("ffff:ff:ff.f", NULL, true, &place);
    wrong += place.bound != PLACE_FREE;
    place_near("", local_cpus(), true, &place);
    wrong += place.bound != PLACE_FREE || *place.gpu || !*place.host;
    sched_getaffinity(0, sizeof after, &after);
    return wrong + !CPU_EQUAL(before, &after);
}

static void test_binding(void **state)
{
    (void)state;
    assert_int_equal(in_child(binds), 0);
    assert_int_equal(in_child(stays_when_not_wanted), 0);
    assert_int_equal(in_child(stays_where_the_launcher_put_it), 0);
    assert_int_equal(in_child(stays_without_a_place), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_binding)};
    return cmocka_run_group_tests(tests, enter_scratch, remove_scratch);
}
