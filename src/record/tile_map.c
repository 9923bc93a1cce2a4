#include "tile_map.h"

#include <math.h>

#include "quantity.h"
#include "schedule.h"

/* How many tiles a side share a cell, so that there are at most `room` cells. */
static int64_t tiles_a_side(int64_t down, int64_t across, int64_t room)
{
    int64_t merged = 1;
    while (ceil_div(down, merged) * ceil_div(across, merged) > room)
        merged++;
    return merged;
}

/* A cell for each rank's band; they have their tiles' blocks. */
static void begin_triangle(struct tile_map *t, const struct problem *p, const struct plan *plan)
{
    for (int rank = 0; rank < plan->grid_rows * plan->grid_cols; rank++) {
        struct block tile = schedule_tile(p, plan, rank, 0);
        if (!block_empty(&tile))
            t->cells[t->count++] = (struct cell){.block = tile, .rank = rank, .ratio = -1};
    }
}

void tile_map_begin(struct tile_map *t, const struct problem *p, const struct plan *plan, int left)
{
    int64_t room = (CELLS_MAX - t->count) / (left + 1); /* tiles that failed are multiplied again */
    int64_t down = ceil_div(p->m, plan->tile_rows), across = ceil_div(p->n, plan->tile_cols);
    t->block = (struct block){p->row, p->col, p->m, p->n};
    t->first = &t->cells[t->count];
    t->cell_rows = t->cell_cols = 0;
    t->by_rank = false;
    if (room == 0)
        return;
    t->by_rank = problem_is_triangle(p) && plan->grid_rows * plan->grid_cols <= room;
    if (t->by_rank) {
        begin_triangle(t, p, plan);
        return;
    }
    int64_t merged = tiles_a_side(down, across, room);
    t->merged = max_i64(t->merged, merged);
    t->cell_rows = merged * plan->tile_rows;
    t->cell_cols = merged * plan->tile_cols;
    for (int64_t i = 0; i < down; i += merged)
        for (int64_t j = 0; j < across; j += merged) {
            int64_t row = i * plan->tile_rows, col = j * plan->tile_cols;
            t->cells[t->count++] = (struct cell){
                .block = {p->row + row, p->col + col, min_i64(t->cell_rows, p->m - row),
                          min_i64(t->cell_cols, p->n - col)},
                .rank = schedule_rank(plan, (int)(i % plan->grid_rows), (int)(j % plan->grid_cols)),
                .ratio = -1};
        }
}

static struct cell *cell_of(const struct tile_map *t, const struct block *tile)
{
    if (t->by_rank) {
        struct cell *cell = t->first;
        while (!block_equal(&cell->block, tile))
            cell++;
        return cell;
    }
    int64_t across = ceil_div(t->block.cols, t->cell_cols);
    return &t->first[(tile->row - t->block.row) / t->cell_rows * across +
                     (tile->col - t->block.col) / t->cell_cols];
}

void tile_map_judge(struct tile_map *t, const struct block *tile, double ratio, double not_finite)
{
    if (t->cell_rows == 0 && !t->by_rank)
        return;
    struct cell *cell = cell_of(t, tile);
    cell->ratio = fmax(cell->ratio, ratio);
    cell->not_finite += not_finite;
}
