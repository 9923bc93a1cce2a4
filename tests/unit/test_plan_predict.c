/* What a plan is predicted to take: against times known by hand, and against its simulation. */
#include "plan_fixture.h"

#include <math.h>

#include "simulate.h"

static struct plan planned(const struct problem *p, const struct machine *m,
                           const struct plan_request *request)
{
    struct plan plan;
    struct error err = {0};
    if (plan_make(p, m, request, &plan, &err))
        fail_msg("%s", err.text);
    return plan;
}

static double simulated_s(const struct problem *p, const struct machine *m,
                          const struct plan_request *request, const struct plan *plan)
{
    struct simulation s;
    struct error err = {0};
    assert_int_equal(simulate(p, m, request, plan, &s, &err), 0);
    return s.wall_s;
}

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance * expected))
        fail_msg("%g is not within %g of %g", value, tolerance, expected);
}

/* Two tiles, one above the other, from a slow disk; B stays on the device.  The first tile is
 * written while the second one's A is read, and the second when nothing is read any more. */
static void test_last_tile(void **state)
{
    (void)state;
    struct problem p = make_problem(4096, 4096, 4096, 1);
    struct machine m = make_machine(1, (size_t)1 << 30, (size_t)4 << 30, true);
    struct plan_request request = {
        .layers = 1, .tile_rows = 2048, .tile_cols = 4096, .slab = 512, .algorithm = ALGORITHM_CPU};
    m.disk_read_bytes_per_s = 1e8;
    m.disk_write_bytes_per_s = 1e9;
    m.disk_run_bytes = 1;
    const double matrix = 8.0 * 4096 * 4096, read = 2 * matrix / 1e8;
    struct plan plan = planned(&p, &m, &request);
    assert_true(plan_holds(&plan, OPERAND_B));
    assert_near(plan.wall_s, read + matrix / 2 / 1e8, 0.1);
    assert_near(plan.wall_s, simulated_s(&p, &m, &request, &plan), 0.1);
}

/* One and the same product, from a slow disk, through a slow bus, on a slow device. */
static void test_limit(void **state)
{
    (void)state;
    struct problem p = make_problem(4096, 4096, 4096, 1);
    struct plan_request request = {
        .layers = 1, .tile_rows = 2048, .tile_cols = 4096, .slab = 512, .algorithm = ALGORITHM_CPU};
    const enum link links[] = {LINK_READ, LINK_IN, LINK_GEMM, LINK_OUT, LINK_WRITE};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        enum link slow = links[i];
        struct machine m = make_machine(1, (size_t)1 << 30, (size_t)4 << 30, true);
        double rates[] = {1e11, 1e11, 1e11, 1e15, 1e11, 1e11};
        rates[slow] /= 1000;
        m.disk_run_bytes = 1;
        m.disk_read_bytes_per_s = rates[LINK_READ];
        m.in_bytes_per_s = rates[LINK_IN];
        m.gemm_flops_per_s[SCALAR_DOUBLE] = rates[LINK_GEMM];
        m.out_bytes_per_s = rates[LINK_OUT];
        m.disk_write_bytes_per_s = rates[LINK_WRITE];
        struct plan plan = planned(&p, &m, &request);
        if (plan.limit != slow)
            fail_msg("limited by %s, not by %s", plan_link_name(plan.limit), plan_link_name(slow));
        assert_true(plan_holds(&plan, OPERAND_B));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_tile),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
