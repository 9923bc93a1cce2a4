/* The simulated run, compared with times and bytes computed by hand, and checked for general
 * invariants. */
#include "simulate_fixture.h"
#include "sums.h"

#include <time.h>

#include "plan_print.h"
#include "planner_impl.h"
#include "quantity.h"

static const struct plan_request plain = {.algorithm = ALGORITHM_CPU};

/* A machine so fast that nothing limits the run. */
static struct machine fast_machine(int ranks, int ranks_per_node)
{
    struct machine m = make_machine(ranks, (size_t)16 << 30, (size_t)32 << 30, true);
    m.ranks_per_node = ranks_per_node;
    m.disk_read_bytes_per_s = m.disk_write_bytes_per_s = 9e9 * ranks;
    m.disk_run_bytes = 1;
    m.in_bytes_per_s = m.out_bytes_per_s = 1e12;
    m.device_bytes_per_s = 1e15;
    m.gemm_flops_per_s[SCALAR_DOUBLE] = 1e16;
    return m;
}

/* Slows down one resource at a time; the run takes the time of that resource. */
static void test_one_limit(void **state)
{
    (void)state;
    struct problem p = make_problem(16384, 16384, 16384, 1);
    const double matrix = 8.0 * 16384 * 16384;
    struct plan_request request = plain;
    request.tile_rows = request.tile_cols = 8192;
    request.slab = 512;
    struct plan plan;
    struct simulation s;

    struct machine m = fast_machine(1, 1);
    m.gemm_flops_per_s[SCALAR_DOUBLE] = 1e12;
    plan = planned(&p, &m, &request);
    s = simulated(&p, &m, &request, &plan);
    assert_int_equal(s.limit, RESOURCE_GEMM);
    assert_near(s.usage[RESOURCE_GEMM].busy_s, plan.roofline.link_s[STAGE_GEMM], 1e-9);
    assert_near(s.wall_s, plan.roofline.link_s[STAGE_GEMM], 0.03);

    m = fast_machine(1, 1);
    m.disk_read_bytes_per_s = 2e8;
    plan = planned(&p, &m, &request);
    s = simulated(&p, &m, &request, &plan);
    assert_int_equal(s.limit, RESOURCE_READ);
    assert_true(s.usage[RESOURCE_READ].amount ==
                2 * matrix); /* repeated panels come from the host cache */
    /* The first two tiles of four are written while the disk is read. */
    assert_near(s.wall_s, 2.5 * matrix / 2e8, 0.03);
    m.files_in_memory = m.output_in_memory = true;
    m.threads = 16;
    s = simulated(&p, &m, &request, &plan);
    assert_near(s.wall_s, 2 * matrix / 2e8, 0.03); /* writing is cheap there */

    m = fast_machine(1, 1);
    m.disk_write_bytes_per_s = 1e8;
    plan = planned(&p, &m, &request);
    s = simulated(&p, &m, &request, &plan);
    assert_int_equal(s.limit, RESOURCE_WRITE);
    assert_near(s.wall_s, matrix / 1e8, 0.03);

    m = fast_machine(1, 1);
    m.in_bytes_per_s = 2e8;
    plan = planned(&p, &m, &request);
    s = simulated(&p, &m, &request, &plan);
    assert_int_equal(s.limit, RESOURCE_IN);
    assert_near(s.wall_s, (double)plan.moves.total.in_bytes / 2e8, 0.03);

    m = fast_machine(1, 1);
    m.node_disk_bytes_per_s = 2e8;
    plan = planned(&p, &m, &request);
    s = simulated(&p, &m, &request, &plan);
    assert_int_equal(s.limit, RESOURCE_LINK_IN);
    /* Reading ends with the third of four tiles; two tiles are drained after that. */
    assert_near(s.wall_s, 2 * matrix / 2e8 + matrix / 2 / 2e8, 0.01);
}

/* One tile, two slabs: the second is read while the first is multiplied. */
static void test_two_slabs(void **state)
{
    (void)state;
    struct problem p = make_problem(4096, 4096, 4096, 1);
    struct machine m = fast_machine(1, 1);
    struct plan_request request = plain;
    request.tile_rows = request.tile_cols = 4096;
    request.slab = 2048;
    m.gemm_flops_per_s[SCALAR_DOUBLE] = 1e11;
    const struct tile_product half = {4096, 4096, 2048, 1};
    for (int slow = 0; slow <= 1; slow++) {
        m.disk_read_bytes_per_s = slow ? 5e7 : 5e8;
        struct plan plan = planned(&p, &m, &request);
        double read = 8.0 * 2 * 4096 * 2048 / plan_read_rate(&p, &m, &plan, OPERAND_A);
        double product = plan_product_seconds(&p, &m, &request, &plan, &half);
        struct simulation s = simulated(&p, &m, &request, &plan);
        assert_int_equal(plan.slabs, 2);
        assert_true(slow == (read > product));
        assert_near(s.wall_s, read + fmax(read, product) + product, 0.02);
    }
}

/* A panel that two ranks of a node need is read once, and copied by each. */
static void test_shared_on_a_node(void **state)
{
    (void)state;
    struct problem p = make_problem(2000, 3000, 1600, 1);
    const double a = 8.0 * 2000 * 1600, b = 8.0 * 1600 * 3000;
    struct plan_request request = plain;
    request.grid_rows = 1;
    request.grid_cols = 2;
    struct machine m = fast_machine(2, 2);
    struct plan plan = planned(&p, &m, &request);
    struct simulation s = simulated(&p, &m, &request, &plan);
    assert_int_equal(s.nodes, 1);
    assert_true(s.usage[RESOURCE_READ].amount == a + b);
    assert_true(s.usage[RESOURCE_IN].amount == 2 * a + b);
    assert_true(s.usage[RESOURCE_SEND].amount == 0);

    /* With two nodes, each reads half of A and sends it to the other. */
    m.ranks_per_node = 1;
    m.network_bytes_per_s = 1e6;
    plan = planned(&p, &m, &request);
    s = simulated(&p, &m, &request, &plan);
    assert_int_equal(s.nodes, 2);
    assert_true(s.usage[RESOURCE_READ].amount == a + b);
    assert_true(s.usage[RESOURCE_SEND].amount == a && s.usage[RESOURCE_RECEIVE].amount == a);
    assert_near(s.usage[RESOURCE_SEND].busy_s, a / 2 / 1e6, 1e-9);
    assert_int_equal(s.limit, RESOURCE_SEND);
    assert_near(s.wall_s, a / 2 / 1e6, 0.02);
}

/* Four nodes of four ranks, grid 4 x 4: a node has a quarter of C, so each panel is needed by two
 * nodes, and each of them reads half of it. */
static void test_four_nodes(void **state)
{
    (void)state;
    struct problem p = make_problem(4000, 4000, 6400, 1);
    const double a = 8.0 * 4000 * 6400, b = a;
    struct plan_request request = plain;
    request.grid_rows = request.grid_cols = 4;
    struct machine m = fast_machine(16, 4);
    m.network_bytes_per_s = 1e7;
    struct plan plan = planned(&p, &m, &request);
    struct simulation s = simulated(&p, &m, &request, &plan);
    assert_int_equal(s.nodes, 4);
    assert_true(s.usage[RESOURCE_LINK_IN].amount == a + b);
    assert_true(s.usage[RESOURCE_SEND].amount == a + b);
    assert_true(s.usage[RESOURCE_RECEIVE].amount == a + b);
    assert_near(s.usage[RESOURCE_RECEIVE].busy_s, (a + b) / 4 / 1e7, 0.01);
    assert_near(s.wall_s, (a + b) / 4 / 1e7, 0.1);
    assert_true(s.usage[RESOURCE_IN].amount == 4 * a + 4 * b);
    assert_true(s.usage[RESOURCE_IN].count == 16 && s.usage[RESOURCE_SEND].count == 4);
}

/* Nodes read in parallel: links with the file system's total rate cost nothing. */
static void test_side_by_side(void **state)
{
    (void)state;
    struct problem p = make_problem(4096, 4096, 4096, 1);
    struct plan_request request = plain;
    request.grid_rows = request.grid_cols = 4;
    request.tile_rows = request.tile_cols = 1024;
    request.slab = 4096;
    struct machine m = fast_machine(16, 1);
    m.disk_read_bytes_per_s = 1e8;
    m.node_disk_bytes_per_s = 1e8 / 16;
    m.disk_write_bytes_per_s = 1e10;
    struct plan plan = planned(&p, &m, &request);
    struct simulation s = simulated(&p, &m, &request, &plan);
    const double matrix = 8.0 * 4096 * 4096;
    assert_int_equal(plan.slabs, 1);
    /* All of A and B pass through the links, then all of C. */
    assert_near(s.wall_s, 2 * matrix / 1e8 + matrix / 1e8, 0.02);
}

/* A random rate between 1e5 and 1e8, so that any resource may limit a small problem, and below the
 * rates of files in memory, which have other plans. */
static double random_rate(void)
{
    return 1e5 * pow(10, (double)random_below(3000) / 1000);
}

static struct machine random_machine(void)
{
    size_t device = (size_t)1 << (12 + random_below(8));
    size_t host = (size_t)1 << (22 + random_below(5));
    struct machine m = make_machine(1 + (int)random_below(24), device, host, random_below(2));
    m.ranks_per_node = 1 + (int)random_below(m.ranks);
    m.disk_run_bytes = 100;
    m.disk_read_bytes_per_s = 20 * random_rate();
    m.disk_write_bytes_per_s = 20 * random_rate();
    m.node_disk_bytes_per_s = random_below(2) ? random_rate() : 0;
    m.network_bytes_per_s = random_below(4) ? random_rate() : 0;
    m.in_bytes_per_s = random_rate();
    m.out_bytes_per_s = random_rate();
    m.gemm_flops_per_s[0] = m.gemm_flops_per_s[1] = 100 * random_rate();
    return m;
}

/* All bytes and operations of the plan are simulated, and nothing is faster than its lower
 * bound. */
static void check_amounts(const struct problem *p, const struct plan *plan,
                          const struct simulation *s)
{
    const struct usage *u = s->usage;
    for (int i = 0; i < RESOURCE_COUNT; i++)
        assert_true(u[i].busy_s >= 0 && s->wall_s >= u[i].busy_s * (1 - 1e-12));
    double element = (double)scalar_size(p->type);
    assert_true(u[RESOURCE_WRITE].amount == element * (double)(p->m * p->n));
    assert_true(u[RESOURCE_OUT].amount == u[RESOURCE_WRITE].amount);
    assert_true(u[RESOURCE_IN].amount == (double)plan->moves.total.in_bytes);
    assert_true(u[RESOURCE_GEMM].amount == plan->moves.total.flops);
    assert_near(u[RESOURCE_SEND].amount, u[RESOURCE_RECEIVE].amount, 1e-9);
    assert_near(u[RESOURCE_LINK_IN].amount, u[RESOURCE_READ].amount, 1e-9);
    if (s->nodes == 1)
        assert_true(u[RESOURCE_SEND].amount == 0);
    assert_near(u[RESOURCE_READ].amount, (double)plan->moves.read_bytes, 1e-9);
    assert_near(u[RESOURCE_SEND].amount, (double)plan->moves.sent_bytes, 1e-9);
}

static void assert_no_slower(double wall_s, double before)
{
    if (wall_s > before * (1 + 1e-9))
        fail_msg("%.9g s, but %.9g s before", wall_s, before);
}

/* The same plan with one rate doubled, or with more slots, is not slower. */
static void check_monotone(const struct problem *p, const struct machine *machine,
                           const struct plan_request *request, const struct plan *plan,
                           double wall_s)
{
    struct machine m = *machine;
    struct plan more = *plan;
    double *const rates[] = {&m.disk_read_bytes_per_s, &m.disk_write_bytes_per_s,
                             &m.node_disk_bytes_per_s, &m.network_bytes_per_s,
                             &m.in_bytes_per_s,        &m.out_bytes_per_s,
                             &m.device_bytes_per_s,    &more.gemm_flops_per_s};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        *rates[i] *= 2;
        assert_no_slower(simulated(p, &m, request, &more).wall_s, wall_s);
        *rates[i] /= 2;
    }
    for (more.slots_in++; more.slots_in <= 4 * plan->slots_in; more.slots_in *= 2)
        assert_no_slower(simulated(p, &m, request, &more).wall_s, wall_s);
    more.slots_in = plan->slots_in;
    more.slots_out++;
    assert_no_slower(simulated(p, &m, request, &more).wall_s, wall_s);
}

static void test_random(void **state)
{
    (void)state;
    enum { ALL = 2000 };
    const int count = tries(ALL);
    int done = 0, limits[RESOURCE_COUNT] = {0};
    for (int trial = 0; trial < count; trial++) {
        struct problem p = make_problem(1 + random_below(300), 1 + random_below(300),
                                        random_below(600), (int)random_below(256));
        struct machine m = random_machine();
        struct plan_request request = plain;
        struct plan plan;
        struct error err = {0};
        request.verify = random_below(2);
        if (random_below(2)) {
            request.grid_rows = 1 + (int)random_below(m.ranks);
            request.grid_cols = m.ranks / request.grid_rows;
        }
        if (random_below(2)) {
            request.tile_rows = 1 + random_below(min_i64(p.m, 40));
            request.tile_cols = 1 + random_below(min_i64(p.n, 40));
            request.slab = 1 + random_below(100);
        }
        if (plan_make(&p, &m, &request, &plan, &err))
            continue;
        struct simulation s = simulated(&p, &m, &request, &plan);
        check_amounts(&p, &plan, &s);
        check_monotone(&p, &m, &request, &plan, s.wall_s);
        limits[s.limit]++;
        done++;
    }
    assert_true(done > count / 2);
    /* Copies within the host are never the limit here; a node sends as much as it receives. */
    for (int i = 0; i < RESOURCE_COUNT && count >= ALL; i++)
        if (limits[i] == 0 && i != RESOURCE_CACHE && i != RESOURCE_RECEIVE)
            fail_msg("never limited by %s", resource_names[i]);
}

/* B is read first and copied to all devices at once, then the rows of A in turns: no device waits
 * for the rows of another, and no bus idles meanwhile. */
static void test_turns(void **state)
{
    (void)state;
    struct problem p = make_problem(1024, 1024, 16384, 1);
    struct plan_request request = plain;
    request.grid_rows = 4;
    request.grid_cols = 1;
    request.tile_rows = 256;
    request.tile_cols = 1024;
    request.slab = 4096;
    struct machine m = fast_machine(4, 4);
    const double matrix = 8.0 * 1024 * 16384, seconds = 10;
    m.node_disk_bytes_per_s = 2 * matrix / seconds;
    m.in_bytes_per_s = 1.25 * matrix / (0.8 * seconds); /* a quarter of A, and all of B */
    struct plan plan = planned(&p, &m, &request);
    double wall_s = simulated(&p, &m, &request, &plan).wall_s;
    assert_int_equal(plan.slabs, 4);
    assert_near(wall_s, seconds + 8.0 * 1024 * 1024 / m.node_disk_bytes_per_s, 0.03);
}

/* While a disk reads half of the time, it writes the previous tile in the other half. */
static void test_beside_writing(void **state)
{
    (void)state;
    struct problem p = make_problem(4096, 4096, 4096, 1);
    struct plan_request request = plain;
    request.tile_rows = 2048;
    request.tile_cols = 4096;
    request.slab = 256;
    struct machine m = fast_machine(1, 1);
    m.device_memory = (size_t)128 << 20; /* too small to keep B */
    m.disk_read_bytes_per_s = 1e8;
    const double read = 8.0 * (2048 + 4096) * 4096 / m.disk_read_bytes_per_s;
    m.gemm_flops_per_s[SCALAR_DOUBLE] = 2.0 * 4096 * 4096 * 2048 * 1.25 / (2 * read);
    struct plan plan = planned(&p, &m, &request);
    plan.slots_in = 1; /* so that reads are hardly ahead */
    plan.kept[OPERAND_B] = 0;
    assert_int_equal(plan.supers_down * plan.slabs, 32);
    struct simulation s = simulated(&p, &m, &request, &plan);
    assert_near(s.usage[RESOURCE_READ].busy_s, 2 * read + read / 3, 0.01);
    assert_near(s.wall_s, read / 16 + s.usage[RESOURCE_GEMM].busy_s, 0.01);
}

/* Two runs on an H200's host whose files were in memory, on one CPU and on two: which of its two
 * jobs a CPU does first does not matter. */
static void test_few_threads(void **state)
{
    (void)state;
    const struct problem p = make_problem(49152, 49152, 49152, 1);
    const double measured[] = {21.45, 11.76}, read_rate[] = {5.8e9, 11.3e9};
    struct machine m = make_machine(1, (size_t)16 << 30, (size_t)60e9, true);
    m.files_in_memory = m.output_in_memory = true;
    m.disk_run_bytes = 3072;
    struct plan_request request = plain;
    request.tile_rows = 24576;
    request.slab = 8192;
    for (int i = 0; i < 2; i++) {
        request.tile_cols = i == 0 ? 8192 : 7024;
        m.threads = i + 1;
        m.disk_read_bytes_per_s = read_rate[i];
        m.disk_write_bytes_per_s = machine_write_by_threads(&m);
        struct plan plan = planned(&p, &m, &request);
        struct simulation s = simulated(&p, &m, &request, &plan);
        assert_near(s.wall_s, measured[i], 0.2);
        double read = s.usage[RESOURCE_READ].busy_s, written = s.usage[RESOURCE_WRITE].busy_s;
        assert_true(s.wall_s > 1.2 * fmax(read, written));
    }
}

/* A node with fewer ranks than allowed per node has its whole link for them. */
static void test_few_ranks(void **state)
{
    (void)state;
    for (int layers = 1; layers <= 2; layers++) {
        struct problem p = make_problem(8192, 8192, 8192, 1);
        struct machine m = fast_machine(2, 2);
        if (layers > 1) { /* copies in are what takes long */
            p = make_problem(64, 64, 1 << 23, 1);
            m.in_bytes_per_s = 1e7;
        }
        p.k_whole = p.k;
        p.blocks.steps = sums_block(&p);
        m.node_disk_bytes_per_s = 1e8;
        m.network_bytes_per_s = 1e8;
        struct plan plan = planned(&p, &m, &plain);
        double alone = simulated(&p, &m, &plain, &plan).wall_s;
        assert_int_equal(plan.layers, layers);
        m.ranks_per_node = 8;
        plan = planned(&p, &m, &plain);
        assert_true(simulated(&p, &m, &plain, &plan).wall_s == alone);
    }
}

/* With many ranks and slabs, several slabs form a simulation step, which stays fast and
 * accurate. */
static void test_many_ranks(void **state)
{
    (void)state;
    struct problem p = make_problem(400000, 400000, 400000, 1);
    struct machine m = make_machine(16384, (size_t)16 << 30, (size_t)32 << 30, true);
    m.ranks_per_node = 4;
    m.disk_read_bytes_per_s = m.disk_write_bytes_per_s = 4e12;
    m.disk_run_bytes = 1;
    m.node_disk_bytes_per_s = 10e9;
    m.network_bytes_per_s = 20e9;
    m.gemm_flops_per_s[SCALAR_DOUBLE] = 1e12;
    struct plan_request request = plain;
    request.grid_rows = request.grid_cols = 128;
    request.tile_rows = request.tile_cols = 3136;
    request.slab = 128;
    struct plan plan = planned(&p, &m, &request);
    clock_t start = clock();
    struct simulation s = simulated(&p, &m, &request, &plan);
    assert_true((double)(clock() - start) < 5.0 * CLOCKS_PER_SEC);
    assert_int_equal(plan.slabs, 3125);
    assert_int_equal(s.nodes, 4096);
    assert_true(s.usage[RESOURCE_GEMM].amount == plan.moves.total.flops);
    assert_int_equal(s.limit, RESOURCE_GEMM);
    assert_near(s.wall_s, plan.roofline.link_s[STAGE_GEMM], 0.03);
}

/* With too many super-blocks to simulate, the others are extrapolated from the first ones. */
static void test_many_supers(void **state)
{
    (void)state;
    struct problem p = make_problem(65536, 65536, 4096, 1);
    struct machine m = fast_machine(1024, 4);
    struct plan_request request = plain;
    request.grid_rows = request.grid_cols = 32;
    request.tile_rows = request.tile_cols = 16;
    request.slab = 4096;
    for (int slow = 0; slow <= !brief(); slow++) {
        if (slow)
            m.disk_write_bytes_per_s = 1e9;
        struct plan plan = planned(&p, &m, &request);
        clock_t start = clock();
        struct simulation s = simulated(&p, &m, &request, &plan);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        assert_int_equal(plan.supers_down * plan.supers_across, 128 * 128);
        assert_true(seconds < 0.1 * s.wall_s);
        assert_near(s.wall_s, plan.roofline.seconds, 0.1);
        assert_near(s.usage[RESOURCE_GEMM].amount, plan.moves.total.flops, 1e-9);
        assert_near(s.usage[RESOURCE_READ].amount, plan.moves.read_bytes, 0.01);
        assert_true(s.limit == RESOURCE_WRITE || !slow);
    }
}

/* The times of consecutive pieces add up. */
static void test_sum(void **state)
{
    (void)state;
    struct problem p = make_problem(2000, 3000, 1600, 1);
    struct machine m = fast_machine(1, 1);
    struct plan plan = planned(&p, &m, &plain);
    struct simulation one = simulated(&p, &m, &plain, &plan), both = one;
    simulation_add(&both, &one);
    assert_int_equal(both.pieces, 2);
    assert_true(both.wall_s == 2 * one.wall_s && both.disk_bytes == 2 * one.disk_bytes);
    assert_true(both.limit == one.limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_limit),
        cmocka_unit_test(test_two_slabs),
        cmocka_unit_test(test_shared_on_a_node),
        cmocka_unit_test(test_four_nodes),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_beside_writing),
        cmocka_unit_test(test_few_threads),
        cmocka_unit_test(test_few_ranks),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_many_supers),
        cmocka_unit_test(test_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
