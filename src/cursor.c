/* The sequence of a node's transfers. */
#include "quantity.h"
#include "schedule.h"
#include "schedule_impl.h"

/* Panels of a tile that are read after those of its first slab. */
static int64_t later_panels(const struct plan *plan)
{
    return 2 * max_i64(plan->slabs - 1, 0);
}

/* The next super-block in which the node has a tile; their number when there is none. */
static int64_t super_after(const struct cursor *c, int64_t super)
{
    int first, end;
    schedule_ranks(c->plan, c->node, &first, &end);
    while (++super < schedule_supers(c->plan))
        for (int rank = first; rank < end; rank++) {
            struct block tile = schedule_tile(c->problem, c->plan, rank, super);
            if (!block_empty(&tile))
                return super;
        }
    return schedule_supers(c->plan);
}

void cursor_start(struct cursor *c, const struct problem *p, const struct plan *plan, int node)
{
    /* Before the first super-block there is an empty one, all but through. */
    *c = (struct cursor){.problem = p,
                         .plan = plan,
                         .node = node,
                         .super = -1,
                         .stage = later_panels(plan),
                         .number = -1};
    c->next = super_after(c, -1);
}

/* Which of the node's lines it is, from 0. */
static int local_line(const struct plan *plan, enum operand operand, int node, int line)
{
    int first, end, before = 0;
    schedule_ranks(plan, node, &first, &end);
    for (int other = 0; other < line; other++) {
        bool here = false;
        for (int rank = first; rank < end; rank++)
            here |= schedule_line(plan, operand, rank) == other;
        before += here;
    }
    return before;
}

/* Whether the node keeps the panel, where, and whether it has it already. */
static void set_kept(const struct cursor *c, struct transfer *t)
{
    const struct plan *plan = c->plan;
    int64_t index = schedule_kept_index(plan, t->operand, t->super, t->slab);
    t->kept = -1;
    t->again = false;
    if (index < 0)
        return;
    int64_t line = local_line(plan, t->operand, c->node, t->line);
    int64_t of_a = plan->node_lines[OPERAND_A] * plan->kept[OPERAND_A];
    t->kept = (t->operand == OPERAND_A ? 0 : of_a) + line * plan->kept[t->operand] + index;
    t->again = schedule_had(c->problem, plan, t->operand, c->node, t->line, t->super);
    t->uses =
        t->operand == OPERAND_A ? schedule_tiles_across(c->problem, plan, c->node, t->line) - 1 : 0;
}

static struct block line_panel(const struct cursor *c, const struct transfer *t)
{
    int rank = schedule_rank_in_line(c->plan, t->operand, t->line, 0);
    struct block tile = schedule_tile(c->problem, c->plan, rank, t->super);
    return schedule_panel(c->problem, c->plan, t->operand, &tile, t->slab);
}

/* The next panel of one stage, which is B or A of one slab, for any line of the grid: of the
 * super-block's later slabs in turn, then of the next one's first slab. */
static bool panel_of_stage(struct cursor *c, int64_t stage)
{
    bool is_later = stage < later_panels(c->plan);
    struct transfer *t = &c->panel;
    *t = (struct transfer){.operand = stage % 2 ? OPERAND_A : OPERAND_B,
                           .super = is_later ? c->super : c->next,
                           .slab = is_later ? 1 + stage / 2 : 0};
    if (t->super < 0 || t->super >= schedule_supers(c->plan))
        return false;
    int lines = schedule_lines(c->plan, t->operand);
    while (t->users == 0 && c->line < lines) {
        t->line = c->line++;
        t->users = schedule_users(c->problem, c->plan, t->operand, c->node, t->line, t->super);
    }
    if (t->users == 0)
        return false;
    t->whole = line_panel(c, t);
    set_kept(c, t);
    return true;
}

/* The tile of C0 that a rank reads between this super-block and the next. */
static struct block c0_tile(const struct cursor *c, int rank)
{
    const struct block none = {0};
    return c->super < 0 ? none : schedule_tile(c->problem, c->plan, rank, c->super);
}

/* The next strip of C0; `at` counts those that have been looked at, of all the node's ranks. */
static bool strip_of_stage(struct cursor *c, int64_t at)
{
    int first, end;
    schedule_ranks(c->plan, c->node, &first, &end);
    int64_t ranks = max_i64(end - first, 1);
    int rank = first + (int)(at % ranks);
    struct block tile = c0_tile(c, rank);
    if (at / ranks >= schedule_strips(c->plan, &tile))
        return false;
    c->panel = (struct transfer){.operand = OPERAND_C,
                                 .whole = schedule_strip(c->plan, &tile, at / ranks),
                                 .line = rank,
                                 .users = 1,
                                 .kept = -1};
    return true;
}

static void next_super(struct cursor *c)
{
    c->super = c->next;
    c->next = super_after(c, c->super);
    c->stage = 0;
}

/* Step to the next panel, or strip of C0, where beta asks for it: the super-block's later panels,
 * the first ones of the next, the strips; the strips before these where the node has to wait for
 * others before its next super-block. */
static bool next_panel(struct cursor *c)
{
    int64_t later = later_panels(c->plan), panels = 2 * c->plan->slabs;
    int64_t strips = problem_reads_c(c->problem) ? STRIPS_MAX * c->plan->ranks_per_node : 0;
    int64_t supers = schedule_supers(c->plan);
    for (;;) {
        bool follows = c->next == c->super + 1;
        int64_t strips_from = follows ? panels : later;
        if (c->stage >= strips_from && c->stage < strips_from + strips) {
            if (strip_of_stage(c, c->stage++ - strips_from))
                return true;
        } else if (c->stage < panels + strips) {
            int64_t panel = c->stage < strips_from ? c->stage : c->stage - strips;
            if (panel_of_stage(c, panel))
                return true;
            c->stage++;
            c->line = 0;
        } else if (c->next >= supers) {
            return false;
        } else {
            next_super(c);
        }
    }
}

/* Nodes that need the same panel read its parts in turns. */
static void set_reader(const struct cursor *c, struct transfer *t)
{
    const struct problem *p = c->problem;
    t->reader = c->node;
    t->fetchers = 1;
    if (t->operand == OPERAND_C || t->again ||
        c->plan->ranks_per_node >= c->plan->grid_rows * c->plan->grid_cols)
        return;
    t->fetchers = schedule_fetchers(p, c->plan, t->operand, t->line, t->super, t->slab, 0, NULL);
    schedule_fetchers(p, c->plan, t->operand, t->line, t->super, t->slab,
                      (int)((t->slab + t->part) % t->fetchers), &t->reader);
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
        c->panel.parts = block_cut_parts(&c->panel.whole, &cut);
        c->part = 0;
    }
    c->panel.block = block_cut_part(&c->panel.whole, &cut, c->part);
    c->panel.part = c->part++;
    set_reader(c, &c->panel);
    *transfer = c->panel;
    c->panel.skip += c->panel.block.rows * c->panel.block.cols;
    c->number++;
    return true;
}

bool schedule_is_for(const struct problem *p, const struct plan *plan, const struct transfer *t,
                     int rank)
{
    if (t->operand == OPERAND_C)
        return t->line == rank;
    return schedule_line(plan, t->operand, rank) == t->line &&
           schedule_needs(p, plan, t->operand, rank, t->super);
}
