/* Plans of random shapes, from long k to outer products, for the two machines of jobs/machines/ in
 * any number of ranks. */
#include <inttypes.h>
#include <math.h>

#include "planner_impl.h"
#include "quantity.h"
#include "schedule.h"
#include "simulate_fixture.h"
#include "sums.h"

/* h200-node.json and cluster-64.json. */
static struct machine make_h200(bool cluster, int ranks)
{
    struct machine m = {.gpu = true,
                        .ranks = ranks,
                        .ranks_per_node = ranks < 4 ? ranks : 4,
                        .threads = 16,
                        .device_memory = (size_t)140000 << 20,
                        .host_memory = (size_t)64000 << 20,
                        .disk_read_bytes_per_s = cluster ? 200e9 : 2.5e9,
                        .disk_write_bytes_per_s = cluster ? 150e9 : 1.9e9,
                        .disk_run_bytes = cluster ? 262144 : 32768,
                        .node_disk_bytes_per_s = cluster ? 20e9 : 0,
                        .network_bytes_per_s = 180e9,
                        .in_bytes_per_s = 45e9,
                        .out_bytes_per_s = 45e9,
                        .device_bytes_per_s = 2.5e12,
                        .gemm_flops_per_s = {53e12, 50e12}};
    return m;
}

/* Evenly spread in its logarithm. */
static int64_t random_extent(double least, double most)
{
    double part = (double)random_below(1 << 20) / (1 << 20);
    return (int64_t)(least * pow(most / least, part));
}

/* Of at most 1e16 products. */
static struct problem random_shape(void)
{
    int64_t m, n, k;
    do {
        m = random_extent(1, 1e6);
        n = random_below(4) ? random_extent(1, 1e6) : m;
        k = random_extent(1, 1e7);
    } while ((double)m * (double)n * (double)k > 1e16);
    struct problem p = make_problem(m, n, k, (int)random_below(8));
    p.k_whole = k;
    p.blocks.steps = sums_block(&p);
    return p;
}

static const struct plan_request plain = {.verify = true, .algorithm = ALGORITHM_TMA};

static double seconds_of(const struct problem *p, bool cluster, int ranks, struct plan *plan)
{
    struct machine m = make_h200(cluster, ranks);
    *plan = planned(p, &m, &plain);
    return simulated(p, &m, &plain, plan).wall_s;
}

/* They take little of the time, unless that is next to nothing, and each has enough to read. */
static void test_steps_are_few(void **state)
{
    (void)state;
    for (int i = 0; i < tries(100); i++) {
        struct problem p = random_shape();
        bool cluster = random_below(2);
        int ranks = cluster ? (int)random_extent(1, 65) : 1 + (int)random_below(4);
        struct plan plan;
        double wall = seconds_of(&p, cluster, ranks, &plan), part = plan.roofline.steps_s / wall;
        if (part > 0.04 && plan.roofline.steps_s > 1e-3)
            fail_msg("%" PRId64 " x %" PRId64 " x %" PRId64 " on %d ranks: %.3f of the time", p.m,
                     p.n, p.k, ranks, part);
        assert_true(plan.slabs <= 1 || plan_step_bytes(&p, &plan) > (32 << 20));
    }
}

/* They are left out where they would only get into each other's way.  The plan is chosen by its
 * roofline, so what is simulated may be a little longer. */
static void test_more_ranks_are_not_slower(void **state)
{
    (void)state;
    for (int i = 0; i < tries(25); i++) {
        struct problem p = random_shape();
        bool cluster = random_below(2);
        double least = INFINITY;
        for (int ranks = 1; ranks <= (cluster ? 64 : 4); ranks += ranks < 4 ? 1 : ranks) {
            struct plan plan;
            double wall = seconds_of(&p, cluster, ranks, &plan);
            if (wall > 1.2 * least + 0.1)
                fail_msg("%" PRId64 " x %" PRId64 " x %" PRId64 ": %g s on %d ranks, before %g s",
                         p.m, p.n, p.k, wall, ranks, least);
            least = fmin(least, wall);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_few),
        cmocka_unit_test(test_more_ranks_are_not_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
