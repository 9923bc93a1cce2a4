/* Which CPUs and which GPU each rank of a computer gets, and the affinity of the process before and
 * after, as the kernel reports it. */
#include "scratch.h"

#include <sched.h>
#include <sys/wait.h>

#include "placement_impl.h"

/* The list of local CPUs; hwloc needs its complete path. */
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

/* Runs the test in a child, since a binding cannot be undone for later tests. */
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

/* Writes a mask of the last CPU, in 32-bit words like the kernel. */
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

/* Places this process as the first of `count` ranks with the same claim. */
static struct placement place_among(int count, const char *gpu, const char *cpus, bool wanted,
                                    int job_cpus)
{
    struct affinity affinity;
    struct claim claims[4];
    struct placement placement = {0};
    snprintf(placement.gpu, sizeof placement.gpu, "%s", gpu);
    if (affinity_open(&affinity)) {
        affinity_claim(&affinity, gpu, cpus, wanted, job_cpus, &claims[0]);
        for (int i = 1; i < count; i++)
            claims[i] = claims[0];
        placement.widened = affinity_widen(claims, count, 0);
        affinity_take(&affinity, claims, count, 0, &placement);
    }
    affinity_close(&affinity);
    return placement;
}

static const char some_gpu[] = "0000:1B:00.0";

static int binds(const cpu_set_t *before)
{
    cpu_set_t after;
    near_last(before);
    struct placement placement = place_among(1, some_gpu, local_cpus(), true, 0);
    sched_getaffinity(0, sizeof after, &after);
    return CPU_COUNT(&after) != 1 || placement.bound != PLACEMENT_NEAR || placement.threads != 1 ||
           placement.nearby != 1 || atoi(placement.cpus) != first_cpu(&after);
}

static int stays_when_not_wanted(const cpu_set_t *before)
{
    cpu_set_t after;
    near_last(before);
    struct placement placement = place_among(1, some_gpu, local_cpus(), false, INT_MAX);
    sched_getaffinity(0, sizeof after, &after);
    return !CPU_EQUAL(before, &after) || placement.bound != PLACEMENT_FREE ||
           placement.threads != CPU_COUNT(before);
}

static void bind_to_first(const cpu_set_t *before)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)first_cpu(before), &one);
    sched_setaffinity(0, sizeof one, &one);
}

/* Nobody else's CPUs are taken where the job has no others for itself. */
static int stays_where_it_was_bound(const cpu_set_t *before)
{
    cpu_set_t after;
    bind_to_first(before);
    near_last(before);
    struct placement placement =
        place_among(1, some_gpu, local_cpus(), true, CPU_COUNT(before) - 1);
    sched_getaffinity(0, sizeof after, &after);
    return CPU_COUNT(&after) != 1 || first_cpu(&after) != first_cpu(before) ||
           placement.bound != PLACEMENT_LAUNCHER || placement.nearby != 0 ||
           placement.threads != 1 || placement.widened;
}

static int is_widened(const cpu_set_t *before)
{
    cpu_set_t after;
    bind_to_first(before);
    struct placement placement = place_among(1, "", NULL, true, CPU_COUNT(before));
    sched_getaffinity(0, sizeof after, &after);
    return !CPU_EQUAL(before, &after) || placement.bound != PLACEMENT_FREE ||
           placement.threads != CPU_COUNT(before) || !placement.widened;
}

static int divides(const cpu_set_t *before)
{
    cpu_set_t after;
    struct placement placement = place_among(2, "", NULL, true, 0);
    sched_getaffinity(0, sizeof after, &after);
    return CPU_COUNT(&after) >= CPU_COUNT(before) || placement.bound != PLACEMENT_SHARE ||
           placement.threads != CPU_COUNT(&after);
}

static int stays_without_a_place(const cpu_set_t *before)
{
    static const char *const masks[] = {"00000000", "", "no mask"};
    cpu_set_t after;
    int wrong = 0;
    for (int i = 0; i < 3; i++) {
        write_mask(masks[i]);
        wrong += place_among(1, some_gpu, local_cpus(), true, 0).bound != PLACEMENT_FREE;
    }
    wrong += place_among(1, "ffff:ff:ff.f", NULL, true, 0).bound != PLACEMENT_FREE;
    wrong += place_among(1, "", local_cpus(), true, 0).bound != PLACEMENT_FREE;
    sched_getaffinity(0, sizeof after, &after);
    return wrong + !CPU_EQUAL(before, &after);
}

static void test_binding(void **state)
{
    (void)state;
    assert_int_equal(in_child(binds), 0);
    assert_int_equal(in_child(stays_when_not_wanted), 0);
    assert_int_equal(in_child(stays_where_it_was_bound), 0);
    assert_int_equal(in_child(is_widened), 0);
    assert_int_equal(in_child(divides), 0);
    assert_int_equal(in_child(stays_without_a_place), 0);
}

/* A node of 2 sockets with 16 cores each and 2 threads per core. */
static hwloc_topology_t synthetic(void)
{
    hwloc_topology_t topology;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, "pack:2 numa:1 core:16 pu:2"), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    return topology;
}

static const unsigned long low = 0xffffffff, high = 0xffffffff00000000, all = ~0UL;

static void test_shares_are_disjoint_and_all_there_is(void **state)
{
    (void)state;
    const unsigned long near[][4] = {{low, low, high, high},
                                     {low, high, low, high},
                                     {all, all, all, all},
                                     {low, low, low, high}};
    hwloc_topology_t topology = synthetic();
    hwloc_bitmap_t share = hwloc_bitmap_alloc();
    for (int c = 0; c < 4; c++) {
        struct claim claims[4];
        unsigned long taken = 0;
        for (int i = 0; i < 4; i++)
            claims[i] = (struct claim){.now = {1}, .near = {near[c][i]}, .moves = true};
        for (int i = 0; i < 4; i++) {
            affinity_share(topology, claims, 4, i, share);
            unsigned long mask = hwloc_bitmap_to_ulong(share);
            assert_true(mask && (mask & ~near[c][i]) == 0 && (mask & taken) == 0);
            assert_int_equal(affinity_threads(topology, claims, 4, i), hwloc_bitmap_weight(share));
            assert_true((mask & 0x5555555555555555) << 1 == (mask & 0xaaaaaaaaaaaaaaaa));
            taken |= mask;
        }
        assert_true(taken == all);
    }
    hwloc_bitmap_free(share);
    hwloc_topology_destroy(topology);
}

/* Ranks that were bound externally keep their CPUs and share them with ranks of the same binding;
 * more ranks than cores share all cores. */
static void test_shared_cpus_count_by_parts(void **state)
{
    (void)state;
    hwloc_topology_t topology = synthetic();
    struct claim claims[40];
    for (int i = 0; i < 40; i++)
        claims[i] = (struct claim){.now = {i < 4 ? low : high}, .near = {all}};
    assert_int_equal(affinity_threads(topology, claims, 4, 0), 8);
    assert_int_equal(affinity_threads(topology, claims, 5, 4), 32);
    assert_int_equal(affinity_threads(topology, claims, 40, 39), 1);
    for (int i = 0; i < 40; i++)
        claims[i].moves = true;
    assert_int_equal(affinity_threads(topology, claims, 40, 7), 1);
    assert_int_equal(affinity_threads(topology, claims, 32, 31), 2);
    hwloc_topology_destroy(topology);
}

/* Which of four bound ranks, each with these CPUs and those near its GPU, have less than their
 * share, as bits.  Either all move or none does. */
static int widened(const unsigned long now[4], const unsigned long near[4], bool may_move)
{
    struct claim claims[4];
    int less = 0;
    for (int rank = 0; rank < 4; rank++) {
        for (int i = 0; i < 4; i++)
            claims[i] = (struct claim){.now = {now[i]}, .near = {near[i]}, .may_move = may_move};
        less |= affinity_widen(claims, 4, rank) << rank;
        for (int i = 0; i < 4; i++)
            assert_int_equal(claims[i].moves, claims[0].moves);
    }
    assert_int_equal(claims[0].moves, less != 0);
    return less;
}

static void test_ranks_with_less_than_their_share_are_widened(void **state)
{
    (void)state;
    const unsigned long quarters[] = {0xffff, 0xffff0000, 0xffff00000000, 0xffff000000000000},
                        halves[] = {low, low, high, high}, any[] = {all, all, all, all},
                        crowded[] = {low, low, low, high}, far[] = {high, high, high, high},
                        two[] = {1, 1, 2, 2}, both[] = {3, 3, 3, 3};
    unsigned long narrow[] = {quarters[0], quarters[1], 1UL << 32, quarters[3]};
    assert_int_equal(widened(quarters, any, true), 0);
    assert_int_equal(widened(quarters, halves, true), 0);
    assert_int_equal(widened(halves, any, true), 0); /* two have 32 together */
    assert_int_equal(widened(crowded, any, true), 7);
    assert_int_equal(widened(narrow, any, true), 4);
    assert_int_equal(widened(narrow, any, false), 0);
    assert_int_equal(widened(halves, far, true), 3);
    assert_int_equal(widened(two, both, true), 0);
}

/* Claims for four GPUs, the first of which are on the far socket. */
static void claim_gpus(struct claim claims[4], unsigned long now, bool moves)
{
    const unsigned long near[] = {high, high, low, low};
    for (int gpu = 0; gpu < 4; gpu++)
        claims[gpu] = (struct claim){.now = {now}, .near = {near[gpu]}, .moves = moves};
}

static void test_ranks_take_the_gpus_near_their_cpus(void **state)
{
    (void)state;
    struct claim claims[8 * 4];
    const int near[] = {2, 3, 0, 1, 2, 3, 0, 1}, any[] = {0, 1, 2, 3, 0, 1, 2, 3};
    for (int i = 0; i < 8; i++)
        claim_gpus(&claims[4 * i], i % 4 < 2 ? low : high, false);
    for (int i = 0; i < 8; i++)
        assert_int_equal(affinity_choose(claims, 8, i, 4), near[i]);
    for (int i = 0; i < 8; i++)
        claim_gpus(&claims[4 * i], all, true);
    for (int i = 0; i < 8; i++)
        assert_int_equal(affinity_choose(claims, 8, i, 4), any[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_shares_are_disjoint_and_all_there_is),
        cmocka_unit_test(test_shared_cpus_count_by_parts),
        cmocka_unit_test(test_ranks_with_less_than_their_share_are_widened),
        cmocka_unit_test(test_ranks_take_the_gpus_near_their_cpus),
    };
    return cmocka_run_group_tests(tests, enter_scratch, remove_scratch);
}
