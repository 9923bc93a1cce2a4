/* The remaining work after any number of interruptions with any plans covers every element once. */
#include "plan_fixture.h"

#include <math.h>
#include <string.h>

#include "schedule.h"
#include "work.h"

enum { ROWS = 60, COLS = 50, DEPTH = 40 };

/* The progress of each element along k; DEPTH: complete. */
struct picture {
    int64_t k[ROWS][COLS];
};

static void paint(struct picture *picture, const struct block *b, int64_t k)
{
    for (int64_t i = b->row; i < b->row + b->rows; i++)
        for (int64_t j = b->col; j < b->col + b->cols; j++)
            picture->k[i][j] = k;
}

/* The pieces and the complete part cover C; the progress of each piece is that of its elements. */
static void check_pieces(const struct work *work, const struct picture *picture)
{
    static int covered[ROWS][COLS];
    double left = 0;
    struct problem whole = {.m = ROWS, .n = COLS, .k = DEPTH};
    memset(covered, 0, sizeof covered);
    for (int p = 0; p < work->count; p++) {
        const struct block *b = &work->pieces[p].block;
        assert_true(b->row >= 0 && b->col >= 0 && b->rows > 0 && b->cols > 0);
        assert_true(b->row + b->rows <= ROWS && b->col + b->cols <= COLS);
        for (int64_t i = b->row; i < b->row + b->rows; i++)
            for (int64_t j = b->col; j < b->col + b->cols; j++) {
                covered[i][j]++;
                assert_int_equal(work->pieces[p].k, picture->k[i][j]);
                left += 1 - (double)picture->k[i][j] / DEPTH;
            }
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            assert_int_equal(covered[i][j], picture->k[i][j] < DEPTH);
    assert_true(fabs(work_done(work, &whole) - 1 + left / (ROWS * COLS)) < 1e-9);
}

/* A plan for a piece, in which only the partition matters. */
static struct plan random_plan(const struct block *piece)
{
    struct plan plan = {.grid_rows = 1 + (int)random_below(3),
                        .grid_cols = 1 + (int)random_below(3),
                        .tile_rows = 1 + random_below(30),
                        .tile_cols = 1 + random_below(30),
                        .slabs = 1};
    plan.block_rows = plan.block_cols = plan.ranks_per_node = 1;
    int64_t height = plan.grid_rows * plan.tile_rows, width = plan.grid_cols * plan.tile_cols;
    plan.supers_down = (piece->rows + height - 1) / height;
    plan.supers_across = (piece->cols + width - 1) / width;
    return plan;
}

static struct plan one_super_block(const struct block *piece)
{
    return (struct plan){.grid_rows = 1,
                         .grid_cols = 1,
                         .block_rows = 1,
                         .block_cols = 1,
                         .ranks_per_node = 1,
                         .tile_rows = piece->rows,
                         .tile_cols = piece->cols,
                         .supers_down = 1,
                         .supers_across = 1,
                         .slabs = 1};
}

/* Marks the work of the ranks on a piece, as the schedule places it. */
static void work_on(struct picture *picture, const struct problem *p, const struct plan *plan,
                    int64_t supers, int64_t k)
{
    for (int64_t super = 0; super < supers + (k > 0); super++)
        for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
            struct block tile = schedule_tile(p, plan, rank, super);
            paint(picture, &tile, super < supers ? DEPTH : k);
        }
}

/* The complete part of a block of C is covered once, and nothing else is. */
static void check_complete(const struct work *work, const struct picture *picture,
                           const struct block *part)
{
    static int covered[ROWS][COLS];
    struct block blocks[BLOCKS_MAX];
    int count = work_complete(work, part, blocks);
    assert_true(count >= 0);
    memset(covered, 0, sizeof covered);
    for (int i = 0; i < count; i++)
        for (int64_t row = blocks[i].row; row < blocks[i].row + blocks[i].rows; row++)
            for (int64_t col = blocks[i].col; col < blocks[i].col + blocks[i].cols; col++)
                covered[row][col]++;
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t col = 0; col < COLS; col++) {
            bool within = row >= part->row && row < part->row + part->rows && col >= part->col &&
                          col < part->col + part->cols;
            assert_int_equal(covered[row][col], within && picture->k[row][col] == DEPTH);
        }
}

/* Some complete elements were damaged. */
static void damage(struct work *work, struct picture *picture)
{
    struct block part = {random_below(ROWS), random_below(COLS), 0, 0}, blocks[BLOCKS_MAX];
    part.rows = random_below(ROWS - part.row + 1);
    part.cols = random_below(COLS - part.col + 1);
    check_complete(work, picture, &part);
    int count = work_complete(work, &part, blocks);
    if (!work_put_back(work, &part)) {
        assert_true(work->count + count > PIECES_MAX);
        return;
    }
    for (int i = 0; i < count; i++)
        paint(picture, &blocks[i], 0);
}

static void test_interrupted_at_random(void **state)
{
    (void)state;
    for (int trial = 0; trial < tries(3000); trial++) {
        const struct problem whole = {.m = ROWS, .n = COLS, .k = DEPTH, .alpha = 1};
        struct picture picture = {0};
        struct work work;
        work_begin(&work, &whole);
        for (int run = 0; run < 12 && work.count > 0; run++) {
            struct piece first = work.pieces[0];
            struct problem part = work_problem(&whole, &first);
            struct plan plan = random_plan(&first.block);
            if (first.k > 0 && schedule_supers(&plan) > 1) { /* as by ranks with less memory */
                work_split(&work, &plan);
                check_pieces(&work, &picture);
                first = work.pieces[0];
                part = work_problem(&whole, &first);
                plan = one_super_block(&first.block);
            }
            int64_t supers = random_below(schedule_supers(&plan) + 1);
            struct piece saved = {.k = first.k + random_below(DEPTH - first.k), .place = 1};
            if (saved.k == first.k || supers == schedule_supers(&plan))
                saved.k = 0;
            work_on(&picture, &part, &plan, supers, saved.k);
            assert_true(work_advance(&work, &plan, supers, &saved));
            check_pieces(&work, &picture);
            if (random_below(4) == 0)
                damage(&work, &picture);
            check_pieces(&work, &picture);
        }
    }
}

/* A piece without new progress keeps its state and its hash. */
static void test_nothing_done(void **state)
{
    (void)state;
    const struct problem whole = {.m = ROWS, .n = COLS, .k = DEPTH};
    const struct piece none = {0};
    struct work work;
    work_begin(&work, &whole);
    work.pieces[0] =
        (struct piece){.block = {0, 0, ROWS, COLS}, .k = 16, .place = 1, .hashed = true, .sum = 77};
    struct plan plan = random_plan(&work.pieces[0].block);
    work_advance(&work, &plan, 0, &none);
    assert_int_equal(work.count, 1);
    assert_true(work.pieces[0].hashed && work.pieces[0].sum == 77 && work.pieces[0].k == 16);
}

static void test_too_many_pieces(void **state)
{
    (void)state;
    const struct problem whole = {.m = ROWS, .n = COLS, .k = DEPTH};
    const struct block tile = {3, 4, 1, 1};
    struct work work;
    work_begin(&work, &whole);
    for (int i = 1; i < PIECES_MAX; i++)
        assert_true(work_again(&work, &tile));
    assert_false(work_again(&work, &tile));
    assert_true(work_put_back(&work, &(struct block){0, 0, ROWS, COLS})); /* nothing is complete */
    work.pieces[0].block.rows = ROWS - 1;
    assert_false(work_put_back(&work, &(struct block){0, 0, ROWS, COLS}));
    assert_int_equal(work.count, PIECES_MAX);
    struct plan plan = random_plan(&work.pieces[0].block);
    assert_false(work_advance(&work, &plan, 0, &(struct piece){.k = 16}));
    assert_int_equal(work.count, PIECES_MAX); /* nothing is lost; the work is repeated */
    assert_true(work_advance(&work, &plan, schedule_supers(&plan), &(struct piece){0}));
    assert_int_equal(work.count, PIECES_MAX - 1);
}

static void test_files_that_are_referred_to(void **state)
{
    (void)state;
    struct work work = {.pieces = {{.k = 16, .place = 1}, {.k = 0, .place = 0}}, .count = 2};
    assert_true(work_refers(&work, 1));
    assert_false(work_refers(&work, 0));
    work.count = 0;
    assert_false(work_refers(&work, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interrupted_at_random),
        cmocka_unit_test(test_nothing_done),
        cmocka_unit_test(test_too_many_pieces),
        cmocka_unit_test(test_files_that_are_referred_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
