/* The order of summation: blocks of k, how their sums are carried, and slabs that fit them. */
#include "plan_fixture.h"
#include "schedule.h"
#include "sums.h"

enum { BLOCKS_MOST = 256 };

static struct problem blocked(int64_t m, int64_t n, int64_t k)
{
    struct problem p = make_problem(m, n, k, 1);
    p.k_whole = k;
    p.blocks.steps = sums_block(&p);
    return p;
}

/* Only the shape decides. */
static void test_rule(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k, blocks;
    } cases[] = {{1000, 1000, 1 << 20, 16},  {1000, 1000, (1 << 20) - 1, 0},
                 {2000, 2000, 5000000, 64},  {17408, 17408, 3473408, 32},
                 {32768, 32768, 1 << 20, 0}, {16384, 32768, 1 << 20, 16},
                 {1000, 1000, 1 << 30, 256}, {1, 1, 10000000, 0},
                 {1, 1, 100000000, 16},      {100, 100, 1 << 24, 256},
                 {32768, 32768, 32768, 0},   {64, 200000, 50000, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct problem p = blocked(cases[i].m, cases[i].n, cases[i].k);
        assert_int_equal(p.blocks.steps % GEMM_QUANTUM, 0);
        assert_int_equal(p.blocks.steps > 0 ? sums_blocks(&p) : 0, cases[i].blocks);
    }
}

/* Carry names of blocks in place of sums: each sum is the list of those that are added, as a text
 * with brackets. */
struct text {
    char of[32 * BLOCKS_MOST];
};

static void join(struct text *to, const struct text *left, const struct text *right)
{
    static struct text joined;
    snprintf(joined.of, sizeof joined.of, "(%.4000s+%.4000s)", left->of, right->of);
    *to = joined;
}

/* The sum of blocks [first, end), a part of a tree over `width` of them. */
static void expect(int64_t first, int64_t end, int64_t width, struct text *to)
{
    static struct text halves[10][2];
    int depth = 0;
    while (1 << depth < width)
        depth++;
    struct text *left = &halves[depth][0], *right = &halves[depth][1];
    if (width == 1) {
        snprintf(to->of, sizeof to->of, "%d", (int)first);
        return;
    }
    expect(first, end, width / 2, left);
    if (first + width / 2 >= end) {
        *to = *left;
        return;
    }
    expect(first + width / 2, end, width / 2, right);
    join(to, left, right);
}

static void test_tree(void **state)
{
    (void)state;
    static struct text waiting[FOLD_MOST], sum, whole;
    for (int64_t blocks = 1; blocks <= BLOCKS_MOST; blocks += blocks < 40 ? 1 : 27) {
        struct problem p = {.k = 16 * blocks, .k_whole = 16 * blocks, .blocks.steps = 16};
        for (int64_t i = 0; i < blocks; i++) {
            const struct sums_there there = sums_there(&p, 16 * i);
            const struct carrying c = sums_carry(i, blocks);
            snprintf(sum.of, sizeof sum.of, "%d", (int)i);
            for (int j = 0; j < c.count; j++) {
                assert_int_equal(c.levels[j], there.levels[j]);
                join(&sum, &waiting[c.levels[j]], &sum);
            }
            assert_true(c.to < sums_levels(&p) && (c.to < 0) == (i + 1 == blocks));
            if (c.to >= 0)
                waiting[c.to] = sum;
        }
        expect(0, blocks, 1 << sums_levels(&p), &whole);
        assert_string_equal(sum.of, whole.of);
    }
}

/* Layers are nodes of the tree, and each of their sums has a place of its own. */
static void test_layers(void **state)
{
    (void)state;
    struct problem p = {.k = 16 * 100 - 5, .k_whole = 16 * 100 - 5, .blocks.steps = 16};
    assert_int_equal(sums_layer_blocks(&p, 1), 128);
    assert_int_equal(sums_layer_blocks(&p, 4), 32);
    assert_int_equal(sums_saved(&p, 1), 8);
    assert_int_equal(sums_saved(&p, 4), 4 * 6);
    assert_int_equal(sums_place(&p, 4, 3, -1), 3 * 6);
    assert_int_equal(sums_place(&p, 4, 3, 4), 4 * 6 - 1);
    p.blocks.steps = 0;
    assert_int_equal(sums_saved(&p, 1), 1);
}

static void test_sums_that_are_there(void **state)
{
    (void)state;
    const struct problem p = {.k = 1600, .k_whole = 1600, .blocks.steps = 16}, one = {.k = 1600};
    struct sums_there there = sums_there(&p, 16 * 11 + 5);
    assert_int_equal(there.count, 4);
    assert_true(there.levels[0] == 0 && there.levels[1] == 1 && there.levels[2] == 3 &&
                there.levels[3] == -1);
    there = sums_there(&p, 16 * 8);
    assert_true(there.count == 1 && there.levels[0] == 3);
    there = sums_there(&one, 7);
    assert_true(there.count == 1 && there.levels[0] == -1);
}

/* Slabs follow each other without a gap, wherever k begins, and none crosses the end of a block. */
static void test_slabs(void **state)
{
    (void)state;
    for (int i = 0; i < tries(2000); i++) {
        const int64_t whole = 1 + random_below(5000), block = 16 * (1 + random_below(20));
        struct problem p = {.k_whole = whole, .blocks.steps = random_below(4) ? block : 0};
        p.k_first = random_below((int)whole);
        p.blocks.origin = p.blocks.steps ? p.k_first - p.k_first % p.blocks.steps : 0;
        p.blocks.origin = random_below(2) ? p.blocks.origin : 0;
        p.k = whole - p.k_first;
        const int64_t longest = p.blocks.steps ? p.blocks.steps : whole;
        const int64_t size = 1 + random_below((int)longest);
        const struct plan plan = {.slab = size,
                                  .slab_short = p.blocks.steps ? 0 : random_below((int)size)};
        const int64_t slabs = schedule_slabs(&p, &plan);
        int64_t at = p.k_first;
        for (int64_t j = 0; j < slabs; j++) {
            const struct slab slab = schedule_slab(&p, &plan, j);
            const int64_t end = slab.first + slab.size - p.blocks.origin;
            assert_int_equal(slab.first, at);
            assert_int_equal(schedule_k(&p, &plan, j), at - p.k_first);
            assert_true(slab.size > 0 && slab.size <= plan.slab);
            at += slab.size;
            if (p.blocks.steps == 0)
                continue;
            assert_int_equal(slab.block, (slab.first - p.blocks.origin) / p.blocks.steps);
            assert_int_equal(slab.block, (end - 1) / p.blocks.steps);
            assert_int_equal(slab.begins, (slab.first - p.blocks.origin) % p.blocks.steps == 0);
            assert_int_equal(slab.ends, end % p.blocks.steps == 0 || at == whole);
        }
        assert_int_equal(at, whole);
        assert_int_equal(schedule_k(&p, &plan, slabs), p.k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),   cmocka_unit_test(test_tree),
        cmocka_unit_test(test_layers), cmocka_unit_test(test_sums_that_are_there),
        cmocka_unit_test(test_slabs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
