/* The planner and the schedule over thousands of random problems and machines. */
#include "plan_fixture.h"

#include <math.h>
#include <stdio.h>

#include "quantity.h"
#include "schedule.h"

/* The tiles of all ranks cover every element of C exactly once. */
static void check_cover(const struct problem *p, const struct machine *m, const struct plan *plan)
{
    unsigned char *count = calloc((size_t)(p->m * p->n), 1);
    for (int rank = 0; rank < m->ranks; rank++)
        for (int64_t super = 0; super < schedule_supers(plan); super++) {
            struct block tile = schedule_tile(p, plan, rank, super);
            assert_true(tile.rows <= plan->tile_rows && tile.cols <= plan->tile_cols);
            for (int64_t i = 0; i < tile.rows; i++)
                for (int64_t j = 0; j < tile.cols; j++)
                    count[(tile.row + i) * p->n + tile.col + j]++;
        }
    for (int64_t i = 0; i < p->m * p->n; i++)
        assert_int_equal(count[i], 1);
    free(count);
}

/* The slabs of a panel cover k in ascending order, edges at multiples of the quantum. */
static void check_slabs(const struct problem *p, const struct plan *plan, const struct block *tile)
{
    int64_t reached = 0;
    for (int64_t slab = 0; slab < plan->slabs; slab++) {
        struct block a = schedule_panel(p, plan, OPERAND_A, tile, slab);
        struct block b = schedule_panel(p, plan, OPERAND_B, tile, slab);
        assert_int_equal(reached % GEMM_QUANTUM, 0);
        assert_int_equal(p->trans[0] ? a.row : a.col, reached);
        assert_int_equal(p->trans[1] ? b.col : b.row, reached);
        reached += p->trans[0] ? a.rows : a.cols;
        assert_int_equal(p->trans[0] ? a.cols : a.rows, tile->rows);
        assert_int_equal(p->trans[1] ? b.rows : b.cols, tile->cols);
    }
    if (plan->slabs)
        assert_int_equal(reached, p->k);
}

/* The strips of a tile are its rows, from the first to the last. */
static void check_strips(const struct plan *plan, const struct block *tile)
{
    int64_t strips = schedule_strips(plan, tile), reached = tile->row;
    assert_in_range(strips, 1, STRIPS_MAX);
    for (int64_t i = 0; i < strips; i++) {
        struct block strip = schedule_strip(plan, tile, i);
        assert_true(strip.row == reached && strip.rows > 0);
        assert_true(strip.col == tile->col && strip.cols == tile->cols);
        reached += strip.rows;
    }
    struct block beyond = schedule_strip(plan, tile, strips);
    assert_int_equal(reached, tile->row + tile->rows);
    assert_true(block_empty(&beyond));
}

/* The panels and strips of C0 that a rank needs, in pipeline order. */
struct wanted {
    struct {
        enum operand operand;
        struct block block;
    } items[1 << 19];
    int64_t count;
};

static void want(struct wanted *w, enum operand operand, struct block block)
{
    assert_in_range(w->count, 0, (1 << 19) - 1);
    w->items[w->count].operand = operand;
    w->items[w->count++].block = block;
}

static void want_slab(struct wanted *w, const struct problem *p, const struct plan *plan,
                      const struct block *before, const struct block *tile, int64_t slab)
{
    for (int operand = OPERAND_B; operand >= OPERAND_A && slab < plan->slabs; operand--)
        if (!block_empty(tile) && !schedule_held(plan, (enum operand)operand, before, tile))
            want(w, (enum operand)operand,
                 schedule_panel(p, plan, (enum operand)operand, tile, slab));
}

static void want_all(struct wanted *w, const struct problem *p, const struct plan *plan, int rank)
{
    int64_t super = 0;
    struct block before = {0}, next, tile = schedule_next_tile(p, plan, rank, &super);
    w->count = 0;
    want_slab(w, p, plan, &before, &tile, 0);
    for (; !block_empty(&tile); before = tile, tile = next) {
        int64_t after = super + 1;
        next = schedule_next_tile(p, plan, rank, &super);
        for (int64_t slab = 1; slab < plan->slabs; slab++)
            want_slab(w, p, plan, &before, &tile, slab);
        if (super == after)
            want_slab(w, p, plan, &tile, &next, 0);
        for (int64_t i = 0; problem_reads_c(p) && i < schedule_strips(plan, &tile); i++)
            want(w, OPERAND_C, schedule_strip(plan, &tile, i));
        if (super != after)
            want_slab(w, p, plan, &tile, &next, 0);
    }
}

/* Every rank finds what it needs in its node's sequence, in order, part by part, and nothing else;
 * each part of each panel has the stated number of users. */
static void check_order(const struct problem *p, const struct machine *m, const struct plan *plan)
{
    static struct wanted w;
    for (int rank = 0; rank < m->ranks; rank++) {
        struct cursor cursor;
        struct transfer t;
        int64_t at = 0, part = 0, elements = 0;
        want_all(&w, p, plan, rank);
        cursor_start(&cursor, p, plan, schedule_node(plan, rank));
        while (cursor_next(&cursor, &t)) {
            if (!schedule_is_for(p, plan, &t, rank))
                continue;
            assert_true(at < w.count && t.operand == w.items[at].operand);
            assert_true(block_equal(&t.whole, &w.items[at].block));
            assert_int_equal(t.part, part++);
            assert_int_equal(t.skip, elements);
            elements += t.block.rows * t.block.cols;
            if (part < t.parts)
                continue;
            assert_int_equal(elements, t.whole.rows * t.whole.cols);
            part = elements = 0;
            at++;
        }
        assert_int_equal(at, w.count);
    }
}

/* The grid lines of a slab's panels alternate, part by part. */
static void check_turns(const struct transfer *before, const struct transfer *t)
{
    if (t->operand == OPERAND_C || t->operand != before->operand || t->super != before->super ||
        t->slab != before->slab)
        return;
    assert_true(t->part == before->part ? t->line > before->line : t->part == before->part + 1);
}

/* The nodes' sequences read, send and copy exactly what the plan promised, slot by slot. */
static void check_traffic(const struct problem *p, const struct machine *m, const struct plan *plan)
{
    uint64_t read = 0, sent = 0, copied = 0, element = scalar_size(p->type);
    int nodes = (int)ceil_div(m->ranks, plan->ranks_per_node);
    for (int node = 0; node < nodes; node++) {
        struct cursor cursor;
        struct transfer t, before = {.super = -1};
        cursor_start(&cursor, p, plan, node);
        for (; cursor_next(&cursor, &t); before = t) {
            check_turns(&before, &t);
            uint64_t bytes = (uint64_t)(t.block.rows * t.block.cols) * element;
            assert_true(bytes > 0 && bytes <= plan->slot_bytes);
            assert_true(t.block.row >= 0 &&
                        t.block.row + t.block.rows <= p->matrix[t.operand].rows);
            assert_true(t.block.col >= 0 &&
                        t.block.col + t.block.cols <= p->matrix[t.operand].cols);
            assert_true(problem_reads(p, t.operand));
            assert_true(t.users >= 1 && t.users <= plan->ranks_per_node);
            copied += bytes * (uint64_t)t.users;
            if (t.again)
                continue;
            read += t.from < 0 ? bytes : 0;
            sent += t.to >= 0 ? bytes : 0;
        }
    }
    assert_int_equal(read, plan->read_bytes);
    assert_int_equal(sent, plan->sent_bytes);
    assert_int_equal(copied, plan->total.in_bytes);
    assert_int_equal(plan->total.write_bytes, (uint64_t)(p->m * p->n) * element);
    assert_true(plan->factor >= 0.9); /* the matrices are small; the bound omits terms of S */
}

/* Each rank of the grid has one position, and a node covers few rows and columns. */
static void check_grid(const struct plan *plan)
{
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        int row = schedule_row(plan, rank), col = schedule_col(plan, rank);
        assert_in_range(row, 0, plan->grid_rows - 1);
        assert_in_range(col, 0, plan->grid_cols - 1);
        assert_int_equal(schedule_rank(plan, row, col), rank);
        const struct stretch node = schedule_ranks(plan, schedule_node(plan, rank));
        assert_in_range(rank, node.first, node.end - 1);
        int64_t rows = 0, cols = 0;
        for (int line = 0; line < plan->grid_rows + plan->grid_cols; line++) {
            bool row_here = false, col_here = false;
            for (int other = node.first; other < node.end; other++) {
                row_here |= schedule_row(plan, other) == line;
                col_here |= schedule_col(plan, other) == line;
            }
            rows += row_here;
            cols += col_here;
        }
        assert_true(rows <= plan->node_lines[OPERAND_A] && cols <= plan->node_lines[OPERAND_B]);
    }
}

static void check_plan(const struct problem *p, const struct machine *m, const struct plan *plan)
{
    assert_true(plan->device_bytes <= m->device_memory);
    assert_true(plan->host_bytes <= m->host_memory);
    assert_true(plan->grid_rows * plan->grid_cols <= m->ranks);
    assert_int_equal(plan->slab % GEMM_QUANTUM, 0);
    assert_int_equal(plan->slabs, problem_reads_ab(p) ? ceil_div(p->k, plan->slab) : 0);
    assert_true(plan->slots_in >= 4 && plan->slots_out >= 2);
    check_grid(plan);
    check_cover(p, m, plan);
    check_order(p, m, plan);
    check_traffic(p, m, plan);
    for (int64_t super = 0; super < schedule_supers(plan); super++) {
        struct block tile = schedule_tile(p, plan, 0, super);
        if (block_empty(&tile))
            continue;
        check_slabs(p, plan, &tile);
        check_strips(plan, &tile);
    }
}

static bool limit_named(const struct error *err, const char *option, size_t *bytes)
{
    const char *at = strstr(err->text, option);
    return at && sscanf(at + strlen(option), " %zu", bytes) == 1;
}

/* The limits in the message are sufficient, and one byte less is not. */
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
        m.device_memory--;
    else
        m.host_memory--;
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
                                        random_below(200), (int)random_below(64));
        size_t device = (size_t)1 << (8 + random_below(12)),
               host = (size_t)1 << (20 + random_below(8));
        struct machine m = make_machine(1 + (int)random_below(12), device, host, random_below(2));
        m.ranks_per_node = 1 + (int)random_below(m.ranks);
        enum algorithm algorithm = random_below(3) ? ALGORITHM_CPU : ALGORITHM_CUBLAS;
        struct plan_request request = {
            .layers = 1, .verify = random_below(2), .algorithm = algorithm};
        if (random_below(4) == 0) {
            request.grid_rows = 1 + (int)random_below(m.ranks);
            request.grid_cols = m.ranks / request.grid_rows;
        }
        if (random_below(4) == 0) {
            request.tile_rows = 1 + random_below(p.m);
            request.tile_cols = 1 + random_below(p.n);
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
    assert_int_equal(plan.total.in_bytes, serpentine);
    assert_int_equal(plan.read_bytes, once);
    assert_int_equal(plan.cache_bytes, 8 * 16 * 64);
    m.files_in_memory = true;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(plan.read_bytes, serpentine);
    assert_int_equal(plan.cache_bytes, 0);
    /* With a single column of tiles, B's panel is kept on the device. */
    m.files_in_memory = false;
    request.tile_cols = 64;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(plan.total.in_bytes, once);
    assert_int_equal(plan.cache_bytes, 0);
}

/* If only some panels fit the cache, those of A are kept first, since all tiles of a row use them.
 * With more device memory A is kept there instead, and the host caches only B's panels; it then has
 * room for two more of them. */
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
    assert_true(plan.buffers[OPERAND_A] == 11 && plan.buffers[OPERAND_B] == 4);
    for (int64_t deep = 4; deep > 2; deep--) {
        m.device_memory = plan.device_bytes - 1;
        assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
        assert_true(plan.buffers[OPERAND_A] == 11 && plan.buffers[OPERAND_B] == deep - 1);
    }
    assert_true(plan.kept[OPERAND_A] == 0 && plan.kept[OPERAND_B] == 30);
    assert_int_equal(plan.total.in_bytes, 8 * (64 * 160 + 4 * 160 * 48));
    check_traffic(&p, &m, &plan);
    m.device_memory = plan.device_bytes - 1;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_int_equal(plan.total.in_bytes, 8 * (3 * 64 * 160 + 4 * 160 * 48));
    assert_true(plan.kept[OPERAND_A] == 10 && plan.kept[OPERAND_B] == 30);
    assert_int_equal(plan.read_bytes, 8 * (64 * 160 + 160 * 48));
    for (size_t less = 1000; less < plan.cache_bytes; less += 1000) {
        m.host_memory = plan.host_bytes - less;
        assert_int_equal(plan_make(&p, &m, &request, &some, &err), 0);
        assert_true(some.host_bytes <= m.host_memory);
        assert_true(some.kept[OPERAND_B] == 0 || some.kept[OPERAND_A] == 10);
        assert_true(some.read_bytes >= plan.read_bytes);
        assert_true(some.read_bytes < plan.total.in_bytes ||
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
    assert_int_equal(plan.total.write_bytes, UINT64_C(8) * 1000000 * 900001);
    assert_true(plan.total.flops == 2.0 * 1000000 * 900001 * 1100000);

    m.ranks = 1;
    m.host_memory = (size_t)8 << 30; /* too little to cache much */
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_true(plan.factor < 1.25);
    assert_true(plan.slab >= 128);
}

/* All ranks together copy more than 2^64 bytes. */
static void test_a_month_of_work(void **state)
{
    (void)state;
    struct problem p = make_problem(100000, 100000, INT64_C(1) << 40, 1);
    struct machine m = make_machine(16, 1 << 30, (size_t)8 << 30, true);
    struct plan_request request = {.layers = 1, .tile_rows = 1000, .tile_cols = 1000, .slab = 4096};
    struct plan plan;
    struct error err = {0};
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    assert_true(fabs(plan.total.in_bytes / (8 * 10000 * 2000.0 * (double)p.k) - 1) < 1e-9);
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
    assert_int_equal(plan.read_bytes, (uint64_t)16 * 20000 * 20000);
    assert_true(plan.slabs > 2);
    assert_true(plan.factor < 1.001);
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
                 {1024, true, STORE_HDF5, SIZE_MAX / 2, 16},
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
    m.files_in_memory = true;
    m.disk_read_bytes_per_s = 34e9;
    m.disk_write_bytes_per_s = 9e9;
    m.disk_run_bytes = 1024;
    assert_true(plan_make(&p, &m, &request, &plan, &err) == 0 && plan.cache_bytes == 0);
    assert_int_equal(plan.slot_bytes, 4 << 20);
    assert_true(plan.roofline_s < 1.1 * plan.link_s[STAGE_GEMM]);
    assert_true(plan.supers_down > 1 && plan.supers_across > 1);
    m.ranks = m.ranks_per_node = 4;
    assert_true(plan_make(&p, &m, &request, &plan, &err) == 0 && plan.slot_bytes == 2 << 20);
    m.ranks = 16;
    m.ranks_per_node = 1;
    m.files_in_memory = false;
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
