/* The planner and the schedule over thousands of random problems and machines. */
#include "plan_checks.h"

static bool limit_named(const struct error *err, const char *option, size_t *bytes)
{
    const char *at = strstr(err->text, option);
    if (!at || sscanf(at + strlen(option), " %zuK", bytes) != 1)
        return false;
    *bytes *= 1024;
    return true;
}

/* The limits in the message are sufficient, and 1 KiB less is not. */
static void check_refusal(const struct problem *p, const struct machine *machine,
                          const struct plan_request *request, const struct error *why)
{
    struct machine m = *machine;
    struct plan plan;
    struct error err = {0};
    bool device = limit_named(why, "--gpu-memory", &m.device_memory);
    bool host = limit_named(why, "--host-memory", &m.host_memory);
    assert_int_equal(why->code, EXIT_RESOURCES);
    assert_true(device || host);
    if (plan_make(p, &m, request, &plan, &err))
        fail_msg("first: %s\nthen: %s", why->text, err.text);
    check_plan(p, &m, &plan);
    if (device)
        m.device_memory -= 1024;
    else
        m.host_memory -= 1024;
    assert_int_equal(plan_make(p, &m, request, &plan, &err), EXIT_RESOURCES);
}

static void test_random_plans(void **state)
{
    (void)state;
    enum { ALL = 4000 };
    const int count = tries(ALL);
    int planned = 0, refused = 0;
    for (int trial = 0; trial < count; trial++) {
        struct problem p = make_problem(1 + random_below(90), 1 + random_below(90),
                                        random_below(200), (int)random_below(256));
        size_t device = (size_t)1 << (8 + random_below(12)),
               host = (size_t)1 << (20 + random_below(8));
        struct machine m = make_machine(1 + (int)random_below(12), device, host, random_below(2));
        m.ranks_per_node = 1 + (int)random_below(m.ranks);
        enum algorithm algorithm = random_below(3) ? ALGORITHM_CPU : ALGORITHM_CUBLAS;
        struct plan_request request = {.verify = random_below(2), .algorithm = algorithm};
        if (random_below(4) == 0) {
            request.grid_rows = 1 + (int)random_below(m.ranks);
            request.grid_cols = m.ranks / request.grid_rows;
        }
        if (random_below(4) == 0) {
            request.tile_rows = 1 + random_below(p.m);
            request.tile_cols = problem_width(&p) * (1 + random_below(p.n / problem_width(&p)));
            request.slab = 1 + random_below(100);
        }
        struct plan plan;
        struct error err = {0};
        if (plan_make(&p, &m, &request, &plan, &err) == 0) {
            planned++;
            check_plan(&p, &m, &plan);
        } else {
            refused++;
            check_refusal(&p, &m, &request, &err);
        }
    }
    assert_true(planned > (count < ALL ? count / 5 : ALL / 4) && refused > count / 40);
}

/* At each turn of the serpentine one panel is reused and not read again. */
static void test_serpentine(void **state)
{
    (void)state;
    struct problem p = make_problem(64, 64, 16, 1);
    struct machine m = make_machine(1, 1 << 20, 1 << 28, true);
    struct plan_request request = {
        .tile_rows = 16, .tile_cols = 16, .slab = 16, .algorithm = ALGORITHM_CPU};
    struct plan plan;
    struct error err = {0};
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(schedule_supers(&plan), 16);
    for (int64_t super = 1; super < 16; super++) {
        struct block one = schedule_tile(&p, &plan, 0, super - 1);
        struct block two = schedule_tile(&p, &plan, 0, super);
        assert_true((one.row == two.row) != (one.col == two.col));
    }
    /* A is read once, and B four times less the panels of the three turns: from the disk if files
     * are in memory, and from the host cache if the disk is slow. */
    const uint64_t once = 8 * (64 * 16 + 16 * 64), serpentine = 8 * (64 * 16 + 16 * (64 + 3 * 48));
    assert_int_equal(plan.moves.total.in_bytes, serpentine);
    assert_int_equal(plan.moves.read_bytes, once);
    assert_int_equal(plan.cache_bytes, 8 * 16 * 64);
    m.files_in_memory = m.output_in_memory = true;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(plan.moves.read_bytes, serpentine);
    assert_int_equal(plan.cache_bytes, 0);
    /* With a single column of tiles, B's panel is kept on the device. */
    m.files_in_memory = m.output_in_memory = false;
    request.tile_cols = 64;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(plan.moves.total.in_bytes, once);
    assert_int_equal(plan.cache_bytes, 0);
}

/* If only some panels fit the cache, those of A are kept first, since all tiles of a row use them.
 * With more device memory A is kept there instead, and the host caches only B's panels; it then has
 * room for two more of them, and for A's of two rows. */
static void test_kept_panels(void **state)
{
    (void)state;
    struct problem p = make_problem(64, 48, 160, 1);
    struct machine m = make_machine(1, 1 << 20, 1 << 28, true);
    struct plan_request request = {
        .tile_rows = 16, .tile_cols = 16, .slab = 16, .algorithm = ALGORITHM_CPU};
    struct plan plan, some;
    struct error err = {0};
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_true(plan.buffers[OPERAND_A] == 20 && plan.buffers[OPERAND_B] == 4);
    assert_int_equal(plan.tiles, 2);
    for (int tiles = 2; tiles > 0; tiles--) {
        m.device_memory = plan.device_bytes - 1;
        assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
        assert_true(plan.buffers[OPERAND_A] == 11 && plan.buffers[OPERAND_B] == 4);
        assert_int_equal(plan.tiles, tiles);
    }
    for (int64_t deep = 4; deep > 2; deep--) {
        m.device_memory = plan.device_bytes - 1;
        assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
        assert_true(plan.buffers[OPERAND_A] == 11 && plan.buffers[OPERAND_B] == deep - 1);
    }
    assert_true(plan.kept[OPERAND_A] == 0 && plan.kept[OPERAND_B] == 30);
    assert_int_equal(plan.moves.total.in_bytes, 8 * (64 * 160 + 4 * 160 * 48));
    check_traffic(&p, &m, &plan);
    m.device_memory = plan.device_bytes - 1;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(plan.moves.total.in_bytes, 8 * (3 * 64 * 160 + 4 * 160 * 48));
    assert_true(plan.kept[OPERAND_A] == 10 && plan.kept[OPERAND_B] == 30);
    assert_int_equal(plan.moves.read_bytes, 8 * (64 * 160 + 160 * 48));
    for (size_t less = 1000; less < plan.cache_bytes; less += 1000) {
        m.host_memory = plan.host_bytes - less;
        assert_int_equal(plan_make(&p, &m, &request, &some, &err), 0);
        assert_true(some.host_bytes <= m.host_memory);
        assert_true(some.kept[OPERAND_B] == 0 || some.kept[OPERAND_A] == 10);
        assert_true(some.moves.read_bytes >= plan.moves.read_bytes);
        assert_true(some.moves.read_bytes < plan.moves.total.in_bytes ||
                    some.kept[OPERAND_A] + some.kept[OPERAND_B] == 0);
        check_traffic(&p, &m, &some);
    }
}

/* Large problems are planned quickly, with 64-bit counts, and the traffic is near the lower
 * bound. */
static void test_large(void **state)
{
    (void)state;
    struct problem p = make_problem(1000000, 900001, 1100000, 1);
    struct machine m = make_machine(1024, (size_t)120 << 30, (size_t)200 << 30, true);
    struct plan_request request = {.verify = true, .algorithm = ALGORITHM_CUBLAS};
    struct plan plan;
    struct error err = {0};
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(plan.moves.total.write_bytes, UINT64_C(8) * 1000000 * 900001);
    assert_true(plan.moves.total.flops == 2.0 * 1000000 * 900001 * 1100000);

    m.ranks = 1;
    m.host_memory = (size_t)8 << 30; /* too little to cache much */
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_true(plan_factor(&plan) < 1.25);
    assert_true(plan.slab >= 128);
}

/* All ranks together copy more than 2^64 bytes. */
static void test_a_month_of_work(void **state)
{
    (void)state;
    struct problem p = make_problem(100000, 100000, INT64_C(1) << 40, 1);
    struct machine m = make_machine(16, 1 << 30, (size_t)8 << 30, true);
    struct plan_request request = {.tile_rows = 1000, .tile_cols = 1000, .slab = 4096};
    struct plan plan;
    struct error err = {0};
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_true(fabs(plan.moves.total.in_bytes / (8 * 10000 * 2000.0 * (double)p.k) - 1) < 1e-9);
}

/* Operands that fit in device memory are read once, in slabs so that reading overlaps computing. */
static void test_small_fits(void **state)
{
    (void)state;
    struct problem p = make_problem(20000, 20000, 20000, 1);
    struct machine m = make_machine(1, (size_t)100 << 30, (size_t)100 << 30, true);
    struct plan_request request = {.verify = true, .algorithm = ALGORITHM_CUBLAS};
    struct plan plan;
    struct error err = {0};
    m.disk_read_bytes_per_s = m.disk_write_bytes_per_s = 20e9;
    m.disk_run_bytes = 4096;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(plan.moves.read_bytes, (uint64_t)16 * 20000 * 20000);
    assert_true(plan.slabs > 2);
    assert_true(plan_factor(&plan) < 1.001);
}

/* On a GPU, all CPU cores decode, as far as memory holds their chunks. */
static void test_decoders(void **state)
{
    (void)state;
    static const struct {
        int64_t chunk;
        bool gpu;
        enum store_way io;
        size_t host;
        int readers;
    } cases[] = {{0, true, STORE_AUTO, SIZE_MAX / 2, 16},
                 {1024, true, STORE_AUTO, SIZE_MAX / 2, 24},
                 {1024, true, STORE_LIBRARY, SIZE_MAX / 2, 16},
                 {1024, false, STORE_AUTO, SIZE_MAX / 2, 2},
                 {1024, true, STORE_AUTO, (size_t)2 << 30, 12},
                 {8192, true, STORE_AUTO, (size_t)4 << 30, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct problem p = make_problem(20000, 20000, 20000, 1);
        struct machine m = make_machine(1, (size_t)8 << 30, cases[i].host, cases[i].gpu);
        struct plan_request request = {.algorithm = ALGORITHM_CPU};
        struct plan plan;
        struct error err = {0};
        m.threads = 24;
        p.io = cases[i].io;
        for (int operand = OPERAND_A; operand <= OPERAND_B && cases[i].chunk; operand++)
            compress(&p.matrix[operand], cases[i].chunk, cases[i].chunk);
        assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
        assert_int_equal(plan.readers, cases[i].readers);
        assert_in_range(plan.writers, 1, 8);
        if (cases[i].chunk && plan.slab >= cases[i].chunk && plan.slab < p.k)
            assert_int_equal(plan.slab % cases[i].chunk, 0);
    }
}

/* If files are in memory, the host does not cache panels, slots fit the CPU cache, and tiles are
 * small enough that their drain overlaps compute.  Otherwise the same rates are those of disks. */
static void test_files_in_memory(void **state)
{
    (void)state;
    struct problem p = make_problem(49152, 49152, 49152, 1);
    struct machine m = make_machine(1, (size_t)16 << 30, (size_t)40 << 30, true);
    struct plan_request request = {.algorithm = ALGORITHM_CPU, .verify = true};
    struct plan plan;
    struct error err = {0};
    m.threads = 16;
    m.files_in_memory = m.output_in_memory = true;
    m.disk_read_bytes_per_s = 34e9;
    m.disk_write_bytes_per_s = 9e9;
    m.disk_run_bytes = 1024;
    assert_true(plan_make(&p, &m, &request, &plan, &err) == 0 && plan.cache_bytes == 0);
    assert_int_equal(plan.slot_bytes, 4 << 20);
    assert_true(plan.roofline.seconds < 1.1 * plan.roofline.link_s[STAGE_GEMM]);
    assert_true(plan.supers_down > 1 && plan.supers_across > 1);
    m.ranks = m.ranks_per_node = 4;
    assert_true(plan_make(&p, &m, &request, &plan, &err) == 0 && plan.slot_bytes == 2 << 20);
    m.ranks = 16;
    m.ranks_per_node = 1;
    m.files_in_memory = m.output_in_memory = false;
    request.grid_rows = request.grid_cols = 4;
    m.device_memory = (size_t)1 << 28;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_true(plan.cache_bytes > 0);
    assert_int_equal(plan.slot_bytes, 8 << 20); /* larger slots, for 16 nodes */
}

/* A plan with more tiles than can be counted is refused at once. */
static void test_too_many_tiles(void **state)
{
    (void)state;
    struct problem p = make_problem((int64_t)1 << 30, (int64_t)1 << 30, 1, 1);
    struct machine m = make_machine(1, 1 << 16, 1 << 28, true);
    struct plan_request request = {.algorithm = ALGORITHM_CPU};
    struct plan plan;
    struct error err = {0};
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), EXIT_RESOURCES);
    assert_non_null(strstr(err.text, "tiles; give more --gpu-memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plans),    cmocka_unit_test(test_serpentine),
        cmocka_unit_test(test_kept_panels),     cmocka_unit_test(test_large),
        cmocka_unit_test(test_a_month_of_work), cmocka_unit_test(test_small_fits),
        cmocka_unit_test(test_decoders),        cmocka_unit_test(test_files_in_memory),
        cmocka_unit_test(test_too_many_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
