#include "schedule.h"

#include "quantity.h"
#include "store.h"

int64_t schedule_supers(const struct plan *plan)
{
    return plan->supers_down * plan->supers_across;
}

static void cut(int64_t extent, int64_t size, int64_t index, int64_t *start, int64_t *length)
{
    *start = min_i64(index * size, extent);
    *length = min_i64(size, extent - *start);
}

struct block schedule_tile(const struct problem *p, const struct plan *plan, int rank,
                           int64_t super)
{
    struct block tile = {0};
    if (rank >= plan->grid_rows * plan->grid_cols)
        return tile;
    int64_t down = super / plan->supers_across, across = super % plan->supers_across;
    if (down % 2)
        across = plan->supers_across - 1 - across;
    cut(p->m, plan->tile_rows, down * plan->grid_rows + rank / plan->grid_cols, &tile.row,
        &tile.rows);
    cut(p->n, plan->tile_cols, across * plan->grid_cols + rank % plan->grid_cols, &tile.col,
        &tile.cols);
    return tile;
}

struct block schedule_panel(const struct problem *p, const struct plan *plan, enum operand operand,
                            const struct block *tile, int64_t slab)
{
    int64_t k_start, k_size;
    cut(p->k, plan->slab, slab, &k_start, &k_size);
    struct block panel = operand == OPERAND_A
                             ? (struct block){tile->row, k_start, tile->rows, k_size}
                             : (struct block){k_start, tile->col, k_size, tile->cols};
    if (p->trans[operand])
        panel = (struct block){panel.col, panel.row, panel.cols, panel.rows};
    return panel;
}

struct block schedule_next_tile(const struct problem *p, const struct plan *plan, int rank,
                                int64_t *super)
{
    struct block tile = {0};
    while (block_empty(&tile) && *super < schedule_supers(plan))
        tile = schedule_tile(p, plan, rank, (*super)++);
    return tile;
}

/* Panels of a tile that are read after those of its first slab. */
static int64_t later_panels(const struct plan *plan)
{
    return 2 * max_i64(plan->slabs - 1, 0);
}

void cursor_start(struct cursor *c, const struct problem *p, const struct plan *plan, int rank)
{
    /* Before the first tile there is an empty one, all but through. */
    *c = (struct cursor){.problem = p, .plan = plan, .rank = rank, .stage = later_panels(plan)};
    c->next = schedule_next_tile(p, plan, rank, &c->super);
}

/* The panel of one stage of a tile: A and B of its later slabs in turn, then A and B of the next
 * tile's first slab.  False when there is none, or when the newest panel is that one. */
static bool panel_stage(struct cursor *c, int64_t stage)
{
    int64_t later = later_panels(c->plan);
    const struct block *tile = stage < later ? &c->tile : &c->next;
    if (block_empty(tile))
        return false;
    c->operand = stage % 2 ? OPERAND_B : OPERAND_A;
    c->block =
        schedule_panel(c->problem, c->plan, c->operand, tile, stage < later ? 1 + stage / 2 : 0);
    if (block_equal(&c->block, &c->last[c->operand]))
        return false;
    c->last[c->operand] = c->block;
    return true;
}

/* Step to the next panel or tile that has to be read; the last stage of a tile is C0, where beta
 * asks for it. */
static bool next_block(struct cursor *c)
{
    int64_t panels = 2 * c->plan->slabs;
    for (;;) {
        int64_t stage = c->stage++;
        if (stage < panels) {
            if (panel_stage(c, stage))
                return true;
        } else if (stage == panels) {
            c->operand = OPERAND_C;
            c->block = c->tile;
            if (problem_reads_c(c->problem) && !block_empty(&c->tile))
                return true;
        } else if (block_empty(&c->next)) {
            return false;
        } else {
            c->tile = c->next;
            c->next = schedule_next_tile(c->problem, c->plan, c->rank, &c->super);
            c->stage = 0;
        }
    }
}

struct block_cut schedule_cut(const struct problem *p, const struct plan *plan,
                              enum operand operand)
{
    const struct matrix_info *info = &p->matrix[operand];
    return (struct block_cut){plan->slot_elements, info->chunk_rows, info->chunk_cols};
}

bool cursor_next(struct cursor *c, struct transfer *transfer)
{
    struct block_cut cut = schedule_cut(c->problem, c->plan, c->operand);
    if (!c->reading || c->part == block_cut_parts(&c->block, &cut)) {
        c->reading = next_block(c);
        c->part = 0;
        if (!c->reading)
            return false;
        cut = schedule_cut(c->problem, c->plan, c->operand);
    }
    transfer->operand = c->operand;
    transfer->block = block_cut_part(&c->block, &cut, c->part++);
    return true;
}

struct traffic schedule_traffic(const struct problem *p, const struct plan *plan, int rank)
{
    struct traffic t = {0};
    uint64_t element = scalar_size(p->type), read = 0, written = 0;
    struct block last = {.row = -1, .col = -1};
    for (int64_t super = 0; super < schedule_supers(plan); super++) {
        struct block tile = schedule_tile(p, plan, rank, super);
        if (block_empty(&tile))
            continue;
        if (plan->slabs > 1 || (plan->slabs == 1 && tile.row != last.row))
            read += (uint64_t)(tile.rows * p->k);
        if (plan->slabs > 1 || (plan->slabs == 1 && tile.col != last.col))
            read += (uint64_t)(p->k * tile.cols);
        if (problem_reads_c(p))
            read += (uint64_t)(tile.rows * tile.cols);
        written += (uint64_t)(tile.rows * tile.cols);
        last = tile;
    }
    t.read_bytes = t.in_bytes = element * read;
    t.write_bytes = t.out_bytes = element * written;
    t.flops = plan->slabs > 0 ? 2.0 * (double)written * (double)p->k : 0;
    return t;
}
