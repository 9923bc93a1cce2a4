#include "panels.h"

#include <assert.h>
#include <stdlib.h>

#include "comm.h"
#include "embedding.h"
#include "error.h"
#include "schedule.h"
#include "statistics.h"

int panels_open(struct panels *p, struct error *err)
{
    const struct problem *problem = p->problem;
    const struct plan *plan = p->plan;
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct feed *feed = &p->feeds[operand];
        feed->buffers = plan->buffers[operand];
        feed->part.matrix =
            (struct device_matrix){.type = problem->held[operand], .ld = plan->ld_panel[operand]};
        feed->factor = (struct device_matrix){
            .type = problem_factor(problem, (enum operand)operand), .ld = plan->ld[operand]};
        feed->current = &feed->part;
        if (feed->buffers == 0)
            continue;
        feed->ring = calloc((size_t)feed->buffers, sizeof *feed->ring);
        if (!feed->ring)
            return error_no_memory(err, "the list of panels on the device");
        feed->newest = feed->current = feed->ring;
        for (int64_t i = 0; i < feed->buffers; i++) {
            feed->ring[i].matrix = feed->part.matrix;
            feed->ring[i].super = -1;
            if (events_create(p->device, &feed->ring[i].full, 1, err) ||
                events_create(p->device, &feed->ring[i].used, 1, err))
                return err->code;
        }
    }
    return 0;
}

void panels_close(struct panels *p)
{
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct feed *feed = &p->feeds[operand];
        for (int64_t i = 0; i < feed->buffers; i++) {
            events_destroy(p->device, &feed->ring[i].full, 1);
            events_destroy(p->device, &feed->ring[i].used, 1);
        }
        free(feed->ring);
    }
}

/* The buffer after the newest one. */
static struct panel *feed_next(const struct feed *feed)
{
    return &feed->ring[(feed->newest - feed->ring + 1) % feed->buffers];
}

/* Whether panels of A are filled from what comes for B, as in a triangle whose bands are cut. */
static bool brings_both(const struct panels *p)
{
    return p->plan->triangle && p->feeds[OPERAND_A].buffers > 0;
}

/* Whether the newest panel is the one that comes. */
static bool feed_has(const struct feed *feed, const struct transfer *comes)
{
    return feed->newest->super == comes->super && feed->newest->slab == comes->slab;
}

/* This rank's tile in a super-block; empty beyond the last one. */
static struct block own_tile(const struct panels *p, int64_t super)
{
    const struct block none = {0};
    return super < schedule_supers(p->plan)
               ? schedule_tile(p->problem, p->plan, comm_place(p->in->comm), super)
               : none;
}

/* Make the next buffer that of the panel which comes, once products no longer read it. */
static int feed_begin(struct panels *p, enum operand operand, const struct transfer *comes,
                      struct error *err)
{
    struct feed *feed = &p->feeds[operand];
    struct panel *panel = feed_next(feed);
    const struct block tile = own_tile(p, comes->super);
    if (feed_has(feed, comes))
        return 0;
    if (products_await(p->products, panel->used, err) ||
        products_retire(p->products, panel->products, err))
        return err->code;
    panel->super = comes->super;
    panel->slab = comes->slab;
    panel->matrix.block = schedule_panel(p->problem, p->plan, operand, &tile, comes->slab);
    panel->whole = comes->whole;
    panel->parts = panel->marked = panel->prepared = 0;
    feed->newest = panel;
    return operand == OPERAND_B && brings_both(p) ? feed_begin(p, OPERAND_A, comes, err) : 0;
}

/* Products that wait for the newest panel's `full` wait for all of it that is enqueued. */
static int mark_full(struct panels *p, enum operand operand, struct error *err)
{
    struct device *dev = p->device;
    struct panel *panel = p->feeds[operand].newest;
    if (!panel || panel->marked == panel->parts)
        return 0;
    panel->marked = panel->parts;
    if (brings_both(p) && dev->record(dev, p->feeds[OPERAND_A].newest->full, STREAM_IN, err))
        return err->code;
    return dev->record(dev, panel->full, STREAM_IN, err);
}

/* Copy the part that comes to the device, the next one of the newest panel.  The last one before
 * another panel's marks it as full: one event for each part would slow the link down (intake.c). */
static int copy_next(struct panels *p, const struct transfer *comes, struct error *err)
{
    const enum operand operand = comes->operand;
    struct feed *feed = &p->feeds[operand];
    struct panel *of_a = brings_both(p) ? p->feeds[OPERAND_A].newest : NULL;
    feed->newest->parts++;
    if (intake_copy(p->in, &feed->newest->matrix, of_a ? &of_a->matrix : NULL, err))
        return err->code;
    const struct transfer *next = intake_next(p->in);
    return next && next->operand == operand && feed_has(feed, next) ? 0
                                                                    : mark_full(p, operand, err);
}

/* Whether parts of the panel come in the order of C's rows. */
static bool comes_by_rows(const struct panels *p, enum operand operand)
{
    return operand == OPERAND_A ? !p->problem->trans[OPERAND_A]
                                : plan_comes_by_rows(p->problem, p->plan);
}

/* Whether the part that comes is of the last slab within reach, and all that is left of its panel
 * is for rows of C beyond. */
static bool is_beyond(const struct panels *p, const struct transfer *comes,
                      const struct reach *reach)
{
    const struct block_cut cut = schedule_cut(p->problem, p->plan, comes->operand);
    if (!comes_by_rows(p, comes->operand) || comes->super != reach->super ||
        comes->slab != reach->slab)
        return false;
    const struct block rest = block_cut_rest(&comes->whole, &cut, comes->part);
    return rest.row >= reach->end_row;
}

/* What comes next, if it is of the slabs within reach; null if it is not. */
static const struct transfer *next_within(const struct panels *p, const struct reach *reach)
{
    const struct transfer *comes = intake_next(p->in);
    const int64_t last = schedule_step(p->plan, reach->super, reach->slab);
    return comes && comes->operand != OPERAND_C && comes->step <= last ? comes : NULL;
}

bool panels_bring(struct panels *p, const struct reach *reach, struct error *err)
{
    const struct transfer *comes = next_within(p, reach);
    return comes && feed_begin(p, comes->operand, comes, err) == 0 && !is_beyond(p, comes, reach) &&
           copy_next(p, comes, err) == 0;
}

bool panels_follow(const struct panels *p)
{
    const struct transfer *comes = intake_next(p->in);
    return comes && comes->operand != OPERAND_C;
}

/* Whether the panel that comes has a buffer. */
static bool has_buffer(const struct panels *p, enum operand operand, const struct transfer *comes)
{
    const struct feed *feed = &p->feeds[operand];
    return feed_has(feed, comes) || p->device->reached(p->device, feed_next(feed)->used);
}

bool panels_come(const struct panels *p, const struct reach *reach)
{
    const struct transfer *comes = intake_comes(p->in) ? next_within(p, reach) : NULL;
    return comes && !is_beyond(p, comes, reach) && has_buffer(p, comes->operand, comes) &&
           (!brings_both(p) || has_buffer(p, OPERAND_A, comes));
}

int panels_standardize(struct panels *p, enum operand operand, const struct device_matrix *matrix,
                       const struct block *block, struct error *err)
{
    const struct block *whole = &matrix->block, part = block_common(whole, block);
    if (p->problem->scaling.axis[operand] == AXIS_NONE || block_empty(&part))
        return 0;
    struct standardize s = statistics_part(p->problem, &p->standardize, operand, &part);
    s.matrix = device_matrix_at(matrix, part.row - whole->row, part.col - whole->col);
    s.ld = matrix->ld;
    return p->device->standardize(p->device, &s, err);
}

const struct device_matrix *panels_factor(const struct panels *p, enum operand operand)
{
    const struct feed *feed = &p->feeds[operand];
    return embedding_needed(p->problem, operand) ? &feed->factor : &feed->current->matrix;
}

/* What the current panel has of a block becomes its part of the factor, where it is embedded. */
static int embed(struct panels *p, enum operand operand, const struct block *block,
                 struct error *err)
{
    const struct device_matrix *from = &p->feeds[operand].current->matrix,
                               *to = &p->feeds[operand].factor;
    const struct block wanted = embedding_in_file(p->problem, operand, &to->block);
    struct block part = block_common(&from->block, block);
    part = block_common(&part, &wanted);
    if (!embedding_needed(p->problem, operand) || block_empty(&part))
        return 0;
    struct block becomes = embedding_of_file(p->problem, operand, &part);
    struct embed e = embedding_make(p->problem, operand, &part);
    e.from = device_matrix_at(from, part.row - from->block.row, part.col - from->block.col);
    e.to = device_matrix_at(to, becomes.row - to->block.row, becomes.col - to->block.col);
    e.ld_from = from->ld;
    e.ld_to = to->ld;
    return p->device->embed(p->device, &e, err);
}

int panels_warm_up(struct panels *p, const struct block *tile, int64_t slab, struct error *err)
{
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++) {
        struct feed *feed = &p->feeds[i];
        struct device_matrix *panel = &feed->current->matrix;
        panel->block = schedule_panel(p->problem, p->plan, i, tile, slab);
        feed->factor.block = schedule_factor(p->problem, p->plan, i, tile, slab);
        struct block element = {panel->block.row, panel->block.col, 1, problem_width(p->problem)};
        if (embed(p, i, &element, err) ||
            (p->feeds[i].buffers > 0 &&
             panels_standardize(p, i, panels_factor(p, i), &element, err)))
            return err->code;
    }
    return 0;
}

/* Parts that came and are not prepared: as many as one kernel can take, so that not thousands of
 * them are enqueued, for which a device has no room. */
static struct block next_part(struct panel *panel, const struct panel *comes,
                              const struct block_cut *cut)
{
    struct block all = block_cut_part(&comes->whole, cut, panel->prepared++);
    for (; panel->prepared < comes->parts; panel->prepared++) {
        struct block part = block_cut_part(&comes->whole, cut, panel->prepared);
        if (!block_join(&all, &part))
            break;
    }
    return all;
}

int panels_prepare(struct panels *p, enum operand operand, struct error *err)
{
    struct device *dev = p->device;
    struct panel *panel = panels_current(p, operand);
    enum operand from = operand == OPERAND_A && p->plan->triangle ? OPERAND_B : operand;
    const struct panel *comes = panels_current(p, from);
    struct block_cut cut = schedule_cut(p->problem, p->plan, from);
    if (mark_full(p, from, err) || dev->wait(dev, STREAM_COMPUTE, panel->full, err))
        return err->code;
    if (p->feeds[operand].buffers == 0 && !embedding_needed(p->problem, operand))
        return 0; /* it is a part of B's */
    while (panel->prepared < comes->parts) {
        struct block part = next_part(panel, comes, &cut);
        if (embed(p, operand, &part, err) ||
            panels_standardize(p, operand, panels_factor(p, operand), &part,
                               err)) /* of real ones */
            return err->code;
    }
    return 0;
}

/* The newest panel of an operand for a slab of a tile: one that was brought for an earlier tile
 * serves as well. */
static struct panel *find_panel(const struct panels *p, enum operand operand,
                                const struct block *tile, int64_t slab)
{
    const struct feed *feed = &p->feeds[operand];
    const struct block block = schedule_panel(p->problem, p->plan, operand, tile, slab);
    int64_t at = feed->newest - feed->ring, tries = feed->buffers;
    while (!block_equal(&feed->ring[at].matrix.block, &block) && --tries > 0)
        at = (at + feed->buffers - 1) % feed->buffers;
    assert(tries > 0);
    return &feed->ring[at];
}

/* The panel of op(A) in a triangle: what that of op(B) has of the file for the tile's rows. */
static struct panel part_of_b(const struct panels *p, const struct block *tile, int64_t slab)
{
    const struct device_matrix *b = &p->feeds[OPERAND_B].current->matrix;
    const struct block block = schedule_panel(p->problem, p->plan, OPERAND_A, tile, slab);
    struct panel part = *p->feeds[OPERAND_B].current;
    part.matrix.memory = device_matrix_at(b, block.row - b->block.row, block.col - b->block.col);
    part.matrix.block = block;
    return part;
}

/* op(B)'s panel of a normal product does not come: it is computed, into the next buffer. */
static void compute_next(struct panels *p, const struct block *tile, int64_t slab)
{
    struct feed *feed = &p->feeds[OPERAND_B];
    feed->current = &feed->ring[slab % feed->buffers];
    feed->current->matrix.block = schedule_panel(p->problem, p->plan, OPERAND_B, tile, slab);
}

void panels_use(struct panels *p, int64_t super, int64_t slab)
{
    const struct block tile = own_tile(p, super);
    if (p->plan->slabs == 0 || block_empty(&tile))
        return;
    for (enum operand operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct feed *feed = &p->feeds[operand];
        if (operand == OPERAND_B && p->problem->normal)
            compute_next(p, &tile, slab);
        else if (feed->buffers > 0)
            feed->current = find_panel(p, operand, &tile, slab);
        feed->factor.block = schedule_factor(p->problem, p->plan, operand, &tile, slab);
        if (embedding_needed(p->problem, operand)) /* into the place of the one before */
            feed->current->prepared = 0;
    }
    if (p->feeds[OPERAND_A].buffers == 0)
        p->feeds[OPERAND_A].part = part_of_b(p, &tile, slab);
}

int panels_release(struct panels *p, struct error *err)
{
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct panel *panel = p->feeds[operand].current;
        if (p->device->record(p->device, panel->used, STREAM_COMPUTE, err))
            return err->code;
        panel->products = p->products->count;
    }
    return 0;
}
