/* The map of C: every tile is in its cell, for few or many tiles, in one piece or several. */
#include "plan_fixture.h"

#include <math.h>

#include "quantity.h"
#include "schedule.h"
#include "tile_map.h"

/* A plan in which only the partition matters. */
static struct plan make_plan(const struct problem *p, int rows, int cols, int64_t tile_rows,
                             int64_t tile_cols)
{
    struct plan plan = {.grid_rows = rows,
                        .grid_cols = cols,
                        .block_rows = 1,
                        .block_cols = 1,
                        .ranks_per_node = 1,
                        .tile_rows = tile_rows,
                        .tile_cols = tile_cols};
    plan.supers_down = ceil_div(p->m, rows * tile_rows);
    plan.supers_across = ceil_div(p->n, cols * tile_cols);
    return plan;
}

static bool holds(const struct block *cell, const struct block *tile)
{
    return tile->row >= cell->row && tile->row + tile->rows <= cell->row + cell->rows &&
           tile->col >= cell->col && tile->col + tile->cols <= cell->col + cell->cols;
}

static double ratio_of(const struct block *tile)
{
    return (double)((tile->row * 31 + tile->col * 17) % 101);
}

/* Judges all tiles of a piece.  Each lies in one cell of the piece; the cell has the largest ratio
 * of its tiles and the rank of the first. */
static void check_piece(struct tile_map *map, const struct problem *p, const struct plan *plan,
                        int left)
{
    int first = map->count, ranks = plan->grid_rows * plan->grid_cols;
    double rows[CELLS_MAX] = {0}, area = 0;
    tile_map_begin(map, p, plan, left);
    for (int rank = 0; rank < ranks; rank++)
        for (int64_t super = 0; super < schedule_supers(plan); super++) {
            struct block tile = schedule_tile(p, plan, rank, super);
            int found = 0;
            if (block_empty(&tile))
                continue;
            tile_map_judge(map, &tile, ratio_of(&tile), 1);
            for (int i = first; i < map->count; i++) {
                const struct cell *cell = &map->cells[i];
                if (!holds(&cell->block, &tile))
                    continue;
                found++;
                rows[i]++;
                assert_true(cell->ratio >= ratio_of(&tile));
                if (tile.row == cell->block.row && tile.col == cell->block.col)
                    assert_int_equal(cell->rank, rank);
                if (map->merged == 1)
                    assert_true(cell->ratio == ratio_of(&tile));
            }
            assert_int_equal(found, 1);
        }
    for (int i = first; i < map->count; i++) {
        assert_true(map->cells[i].not_finite == rows[i] && rows[i] > 0);
        area += (double)(map->cells[i].block.rows * map->cells[i].block.cols);
    }
    assert_true(area == (double)p->m * (double)p->n);
}

static void test_each_tile_is_a_cell(void **state)
{
    (void)state;
    static struct tile_map map;
    struct problem p = {.m = 100, .n = 90, .k = 10};
    struct plan plan = make_plan(&p, 2, 3, 7, 11);
    check_piece(&map, &p, &plan, 1);
    assert_int_equal(map.count, 15 * 9);
    assert_int_equal(map.merged, 1);
}

static void test_many_tiles_make_a_cell(void **state)
{
    (void)state;
    static struct tile_map map;
    struct problem p = {.m = 1000, .n = 3000, .k = 10};
    struct plan plan = make_plan(&p, 2, 2, 7, 5);
    check_piece(&map, &p, &plan, 1);
    assert_true(map.merged > 1 && map.count > CELLS_MAX / 8 && map.count <= CELLS_MAX / 2);
}

/* Pieces of C share the cells; when there are none left, further pieces are omitted. */
static void test_pieces(void **state)
{
    (void)state;
    static struct tile_map map;
    struct problem p = {.m = 400, .n = 300, .k = 10};
    int begun = 0;
    for (int left = 5; left > 0; left--) {
        p.row = 400 * (5 - left);
        struct plan plan = make_plan(&p, 1, 2, 3, 4);
        check_piece(&map, &p, &plan, left);
    }
    assert_int_equal(map.cells[map.count - 1].block.row / 400, 4);
    while (begun++ < 100) {
        struct plan plan = make_plan(&p, 1, 1, 400, 300);
        struct block tile = {p.row, p.col, p.m, p.n};
        tile_map_begin(&map, &p, &plan, 1);
        tile_map_judge(&map, &tile, begun, 0);
        assert_true(map.count <= CELLS_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_tile_is_a_cell),
        cmocka_unit_test(test_many_tiles_make_a_cell),
        cmocka_unit_test(test_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
