/* The sequence of a node's transfers. */
#include "quantity.h"
#include "schedule.h"
#include "schedule_impl.h"

enum { PER_STRIP = MIRRORS + 1 }; /* blocks of C0 */

/* The panels of a step: B's, A's that come when they are needed, and A's of later super-blocks, or
 * later slabs. */
enum { STEP_B, STEP_A, STEP_AHEAD, STEP_AHEAD_NEXT, STEP_STAGES };

/* Stages of a super-block after its first slab's. */
static int64_t later_stages(const struct plan *plan)
{
    return STEP_STAGES * max_i64(plan->slabs - 1, 0);
}

void cursor_start(struct cursor *c, const struct problem *p, const struct plan *plan, int node)
{
    const struct stretch ranks = schedule_ranks(plan, node);
    /* Before the first super-block there is an empty one, all but through. */
    *c = (struct cursor){.problem = p,
                         .plan = plan,
                         .node = node,
                         .super = -1,
                         .stage = later_stages(plan),
                         .number = -1,
                         .newest.super = -1};
    for (enum operand operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct stretch *lines = &c->lines[operand];
        for (int rank = ranks.first; rank < ranks.end; rank++) {
            int line = schedule_line(plan, operand, rank);
            lines->first = rank > ranks.first && lines->first < line ? lines->first : line;
            lines->end = lines->end > line ? lines->end : line + 1;
        }
    }
}

/* Which of the node's lines it is, from 0. */
static int local_line(const struct plan *plan, enum operand operand, int node, int line)
{
    const struct stretch ranks = schedule_ranks(plan, node);
    int before = 0;
    for (int other = 0; other < line; other++) {
        bool here = false;
        for (int rank = ranks.first; rank < ranks.end; rank++)
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
    return schedule_line_panel(c->problem, c->plan, t->operand, &tile, t->slab);
}

/* Make a panel for a line of the grid the newest one; it has no parts when nobody on the node needs
 * it. */
static void find_panel(struct cursor *c, const struct transfer *panel, int line)
{
    struct transfer *t = &c->newest;
    if (t->operand == panel->operand && t->super == panel->super && t->slab == panel->slab &&
        t->step == panel->step && t->line == line)
        return;
    *t = *panel;
    t->line = line;
    t->users = schedule_users(c->problem, c->plan, t->operand, c->node, line, t->super);
    if (t->users == 0)
        return;
    struct block_cut cut = schedule_cut(c->problem, c->plan, t->operand);
    t->whole = line_panel(c, t);
    t->parts = block_cut_parts(&t->whole, &cut);
    set_kept(c, t);
}

/* What comes in one stage: a panel, or a share of it where its parts come in several steps. */
struct coming {
    struct transfer panel;
    int64_t share, shares;
};

/* Which panel of A comes in a step of a super-block, ahead of the step that needs it (plan.h): of
 * the super-block's own row, or of the next one.  Its slab is outside k where there is none. */
static void find_ahead(const struct plan *plan, int64_t super, int64_t slab, bool next,
                       struct coming *coming)
{
    const int64_t across = plan->supers_across, lead = plan_lead(plan), first = super < across;
    const int64_t step = (super % across - first) * plan->slabs + slab;
    struct transfer *panel = &coming->panel;
    if (plan_holds_rows(plan)) { /* its first super-block, or the second, where a rank may begin */
        coming->shares = across - first;
        coming->share = step % coming->shares;
        panel->super = (super / across + 1) * across + next;
        panel->slab = step >= 0 ? step / coming->shares : -1;
        return;
    }
    panel->super = super + next;
    panel->slab = slab + lead - next * plan->slabs;
    if (lead == 0 || panel->super < across)
        panel->slab = -1;
}

/* What comes in one stage: of the super-block's later slabs in turn, then of the next one's first
 * slab.  The panel's slab is outside k where there is none. */
static struct coming coming_in(const struct cursor *c, int64_t stage)
{
    const struct plan *plan = c->plan;
    const int64_t later = later_stages(plan);
    const int64_t super = c->super + (stage >= later), which = stage % STEP_STAGES;
    struct transfer t = {.operand = which == STEP_B ? OPERAND_B : OPERAND_A,
                         .super = super,
                         .slab = stage < later ? 1 + stage / STEP_STAGES : 0};
    t.step = schedule_step(plan, super, t.slab);
    if (which == STEP_A && plan_comes_ahead(plan, super))
        t.slab = -1;
    struct coming coming = {.panel = t, .shares = 1};
    if (which >= STEP_AHEAD)
        find_ahead(plan, super, t.slab, which == STEP_AHEAD_NEXT, &coming);
    return coming;
}

/* The next part of the panels of one stage, for all lines of the grid.  The lines take turns, so
 * that all devices of the node are fed at the same time. */
static bool part_of_panels(struct cursor *c, int64_t stage)
{
    const struct coming coming = coming_in(c, stage);
    const struct transfer *panel = &coming.panel;
    const struct stretch *lines = &c->lines[panel->operand];
    const int64_t share = coming.share, shares = coming.shares;
    if (panel->super < 0 || panel->super >= schedule_supers(c->plan) || panel->slab < 0 ||
        panel->slab >= c->plan->slabs)
        return false;
    for (;; c->part++, c->line = 0) {
        for (int line = lines->first + c->line; line < lines->end; line++) {
            find_panel(c, panel, line);
            c->newest.part = c->newest.parts * share / shares + c->part;
            if (c->newest.part >= c->newest.parts * (share + 1) / shares)
                continue;
            c->line = line + 1 - lines->first;
            return true;
        }
        if (c->line == 0) /* no panel has so many parts */
            return false;
    }
}

/* The next part of a strip of C0, or of its mirrors, which come first, of the tiles that are read
 * between this super-block and the next; `at` counts those of all the node's ranks. */
static bool part_of_strip(struct cursor *c, int64_t at)
{
    const struct stretch all = schedule_ranks(c->plan, c->node);
    int64_t ranks = max_i64(all.end - all.first, 1);
    int rank = all.first + (int)(at % ranks);
    struct block tile = {0}, strip = {0};
    if (c->super >= 0)
        tile = schedule_tile(c->problem, c->plan, rank, c->super);
    struct block_cut cut = schedule_cut(c->problem, c->plan, OPERAND_C);
    int64_t index = at / ranks / PER_STRIP;
    int which = (int)(at / ranks % PER_STRIP);
    if (index < schedule_strips(c->plan, &tile) && which == MIRRORS)
        strip = schedule_strip(c->problem, c->plan, &tile, index);
    else if (problem_mirrors(c->problem))
        strip = schedule_mirror(c->problem, c->plan, &tile, index, which);
    c->newest = (struct transfer){.operand = OPERAND_C,
                                  .whole = strip,
                                  .line = rank,
                                  .part = c->part++,
                                  .users = 1,
                                  .parts = block_cut_parts(&strip, &cut),
                                  .kept = -1};
    return c->newest.part < c->newest.parts;
}

/* Step to the next part of a panel, or of C0, where beta asks for it: the super-block's later
 * panels, the first ones of the next, the strips. */
static bool next_part(struct cursor *c)
{
    int64_t panels = c->plan->slabs > 0 ? later_stages(c->plan) + STEP_STAGES : 0;
    int64_t strips =
        problem_reads_c(c->problem) ? PER_STRIP * STRIPS_MAX * c->plan->ranks_per_node : 0;
    int64_t supers = schedule_supers(c->plan);
    for (;;) {
        bool more = false;
        if (c->stage < panels) {
            more = part_of_panels(c, c->stage);
        } else if (c->stage < panels + strips) {
            more = part_of_strip(c, c->stage - panels);
        } else if (c->super + 1 < supers) {
            c->super++;
            c->stage = -1; /* before the first */
        } else {
            return false;
        }
        if (more)
            return true;
        c->stage++;
        c->part = 0;
        c->line = 0;
    }
}

/* Which part it is of all that its line of the grid will get of the operand.  The count goes on
 * from slab to slab, so that the turns of the readers do. */
static int64_t count_parts(const struct cursor *c, const struct transfer *t)
{
    const struct block_cut cut = schedule_cut(c->problem, c->plan, t->operand);
    const int64_t slabs = t->super * c->plan->slabs + t->slab;
    struct transfer first = *t, last = *t; /* one of them may be shorter than the others */
    first.slab = 0;
    last.slab = c->plan->slabs - 1;
    const struct block panels[] = {line_panel(c, &first), line_panel(c, &last)};
    return slabs * max_i64(block_cut_parts(&panels[0], &cut), block_cut_parts(&panels[1], &cut)) +
           t->part;
}

/* Nodes that need the same panel take turns at reading it; from the one that reads a part it goes
 * round until all have it. */
static void set_way(const struct cursor *c, struct transfer *t)
{
    const struct plan *plan = c->plan;
    t->from = t->to = -1;
    if (t->operand == OPERAND_C || t->again ||
        plan->ranks_per_node >= plan->grid_rows * plan->grid_cols)
        return;
    struct ring ring = schedule_ring(c->problem, plan, t, c->node);
    int64_t reader = count_parts(c, t) / plan->turn[t->operand] % ring.count;
    if (reader != ring.at)
        t->from = ring.before;
    if (reader != (ring.at + 1) % ring.count)
        t->to = ring.after;
}

bool cursor_next(struct cursor *c, struct transfer *transfer)
{
    struct transfer *t = &c->newest;
    if (!next_part(c))
        return false;
    struct block_cut cut = schedule_cut(c->problem, c->plan, t->operand);
    t->block = block_cut_part(&t->whole, &cut, t->part);
    t->skip = block_cut_before(&t->whole, &cut, t->part);
    set_way(c, t);
    *transfer = *t;
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
