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

struct block schedule_strip(const struct plan *plan, const struct block *tile, int64_t index)
{
    int64_t start, rows;
    cut(tile->rows, plan->strip_rows, index, &start, &rows);
    return (struct block){tile->row + start, tile->col, rows, tile->cols};
}

int64_t schedule_strips(const struct plan *plan, const struct block *tile)
{
    return block_empty(tile) ? 0 : ceil_div(tile->rows, plan->strip_rows);
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

/* Tiles that a rank has in a row of super-blocks that are all within C's rows. */
static int64_t tiles_across(const struct problem *p, const struct plan *plan, int rank)
{
    return ceil_div(ceil_div(p->n, plan->tile_cols) - rank % plan->grid_cols, plan->grid_cols);
}

/* The tile's column of super-blocks. */
static int64_t across_of(const struct plan *plan, const struct block *tile)
{
    return tile->col / plan->tile_cols / plan->grid_cols;
}

/* Whether a row of super-blocks before the tile's has needed its panels of B. */
static bool below_first(const struct plan *plan, const struct block *tile)
{
    return tile->row >= plan->tile_rows * plan->grid_rows;
}

static bool same_row(const struct block *before, const struct block *tile)
{
    return !block_empty(before) && before->row == tile->row;
}

static bool same_col(const struct block *before, const struct block *tile)
{
    return !block_empty(before) && before->col == tile->col;
}

bool schedule_held(const struct plan *plan, enum operand operand, const struct block *before,
                   const struct block *tile)
{
    return plan_holds(plan, operand) &&
           (operand == OPERAND_A ? same_row(before, tile) : same_col(before, tile));
}

/* Whether the host keeps the panel of a slab, and whether it has it already. */
static void set_kept(const struct cursor *c, const struct block *before, const struct block *tile,
                     int64_t slab, struct transfer *panel)
{
    const struct plan *plan = c->plan;
    int64_t index = panel->operand == OPERAND_A ? slab : across_of(plan, tile) * plan->slabs + slab;
    panel->kept = -1;
    panel->again = false;
    if (index >= plan->kept[panel->operand])
        return;
    panel->kept = panel->operand == OPERAND_A ? index : plan->kept[OPERAND_A] + index;
    panel->again = panel->operand == OPERAND_A ? same_row(before, tile) : below_first(plan, tile);
    panel->uses = panel->operand == OPERAND_A ? tiles_across(c->problem, plan, c->rank) - 1 : 0;
}

/* The panel of one stage of a tile: A and B of its later slabs in turn, then A and B of the next
 * tile's first slab.  False when there is none, or when the device holds it. */
static bool panel_stage(struct cursor *c, int64_t stage)
{
    bool is_later = stage < later_panels(c->plan);
    const struct block *tile = is_later ? &c->tile : &c->next;
    const struct block *before = is_later ? &c->before : &c->tile;
    int64_t slab = is_later ? 1 + stage / 2 : 0;
    enum operand operand = stage % 2 ? OPERAND_B : OPERAND_A;
    if (block_empty(tile) || schedule_held(c->plan, operand, before, tile))
        return false;
    c->panel.operand = operand;
    c->panel.block = schedule_panel(c->problem, c->plan, operand, tile, slab);
    set_kept(c, before, tile, slab, &c->panel);
    return true;
}

/* Step to the next panel or strip that has to be read; the last stages of a tile are the strips of
 * C0, where beta asks for it. */
static bool next_panel(struct cursor *c)
{
    int64_t panels = 2 * c->plan->slabs;
    bool reads_c = problem_reads_c(c->problem);
    for (;;) {
        int64_t stage = c->stage++;
        if (stage < panels) {
            if (panel_stage(c, stage))
                return true;
        } else if (reads_c && stage - panels < schedule_strips(c->plan, &c->tile)) {
            struct block strip = schedule_strip(c->plan, &c->tile, stage - panels);
            c->panel = (struct transfer){.operand = OPERAND_C, .block = strip, .kept = -1};
            return true;
        } else if (block_empty(&c->next)) {
            return false;
        } else {
            c->before = c->tile;
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
    bool fresh = !c->reading || c->part == c->panel.parts;
    if (fresh)
        c->reading = next_panel(c);
    if (!c->reading)
        return false;
    struct block_cut cut = schedule_cut(c->problem, c->plan, c->panel.operand);
    if (fresh) {
        c->panel.whole = c->panel.block;
        c->panel.parts = block_cut_parts(&c->panel.whole, &cut);
        c->panel.skip = 0;
        c->part = 0;
    }
    c->panel.block = block_cut_part(&c->panel.whole, &cut, c->part++);
    *transfer = c->panel;
    c->panel.skip += c->panel.block.rows * c->panel.block.cols;
    return true;
}

/* Of k, what the first `panels` slabs hold. */
static int64_t k_of(const struct problem *p, const struct plan *plan, int64_t panels)
{
    return min_i64(max_i64(panels, 0) * plan->slab, p->k);
}

struct traffic schedule_traffic(const struct problem *p, const struct plan *plan, int rank)
{
    struct traffic t = {0};
    uint64_t element = scalar_size(p->type), read = 0, kept = 0, written = 0;
    struct block last = {0};
    int64_t k = plan->slabs ? p->k : 0, k_kept_a = k_of(p, plan, plan->kept[OPERAND_A]);
    for (int64_t super = 0; super < schedule_supers(plan); super++) {
        struct block tile = schedule_tile(p, plan, rank, super);
        if (block_empty(&tile))
            continue;
        int64_t k_kept_b = k_of(
            p, plan,
            min_i64(plan->kept[OPERAND_B] - across_of(plan, &tile) * plan->slabs, plan->slabs));
        if (!schedule_held(plan, OPERAND_A, &last, &tile)) {
            read += (uint64_t)(tile.rows * k);
            kept += same_row(&last, &tile) ? (uint64_t)(tile.rows * k_kept_a) : 0;
        }
        if (!schedule_held(plan, OPERAND_B, &last, &tile)) {
            read += (uint64_t)(k * tile.cols);
            kept += below_first(plan, &tile) ? (uint64_t)(k_kept_b * tile.cols) : 0;
        }
        if (problem_reads_c(p))
            read += (uint64_t)(tile.rows * tile.cols);
        written += (uint64_t)(tile.rows * tile.cols);
        last = tile;
    }
    t.in_bytes = element * read;
    t.read_bytes = element * (read - kept);
    t.write_bytes = t.out_bytes = element * written;
    t.flops = plan->slabs > 0 ? 2.0 * (double)written * (double)p->k : 0;
    return t;
}
