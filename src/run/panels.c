#include "panels.h"

#include <assert.h>
#include <stdlib.h>

#include "embedding.h"
#include "error.h"
#include "schedule.h"
#include "statistics.h"

enum { DEEP = 4 }; /* buffers, with which a panel can come while two products wait for theirs */

int panels_open(struct panels *p, const struct problem *problem, const struct plan *plan,
                struct device *device, struct intake *in, struct steps *steps, struct error *err)
{
    *p = (struct panels){
        .problem = problem, .plan = plan, .device = device, .in = in, .steps = steps};
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct feed *feed = &p->feeds[operand];
        feed->buffers = plan->buffers[operand];
        feed->part.matrix = (struct matrix){.type = problem_held(problem, (enum operand)operand),
                                            .ld = plan->ld_panel[operand]};
        feed->factor = (struct matrix){.type = problem->type, .ld = plan->ld[operand]};
        feed->current = &feed->part;
        if (feed->buffers == 0)
            continue;
        feed->ring = calloc((size_t)feed->buffers, sizeof *feed->ring);
        if (!feed->ring)
            return error_no_memory(err, "the list of panels on the device");
        feed->newest = feed->current = feed->ring;
        for (int64_t i = 0; i < feed->buffers; i++) {
            feed->ring[i].matrix = feed->part.matrix;
            if (events_create(device, &feed->ring[i].full, 1, err) ||
                events_create(device, &feed->ring[i].used, 1, err))
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

/* Make the next buffer that of the wanted slab, once the product that last read it is done. */
static int feed_begin(struct panels *p, enum operand operand, struct error *err)
{
    struct feed *feed = &p->feeds[operand];
    struct panel *panel = feed_next(feed);
    if (steps_await(p->steps, panel->used, err) || steps_retire(p->steps, panel->steps, err))
        return err->code;
    panel->matrix.block = schedule_panel(p->problem, p->plan, operand, &p->wanted, p->wanted_slab);
    panel->whole = schedule_line_panel(p->problem, p->plan, operand, &p->wanted, p->wanted_slab);
    panel->parts = panel->prepared = 0;
    feed->newest = panel;
    feed->begun = true;
    return operand == OPERAND_B && brings_both(p) ? feed_begin(p, OPERAND_A, err) : 0;
}

/* Copy the next part of a panel to the device. */
static int panel_add(struct panels *p, struct panel *panel, struct error *err)
{
    panel->parts++;
    return intake_copy(p->in, &panel->matrix,
                       brings_both(p) ? &p->feeds[OPERAND_A].newest->matrix : NULL, err);
}

/* The copies so far make the panel full, once they are done. */
static int record_full(struct panels *p, struct panel *panel, struct error *err)
{
    struct device *dev = p->device;
    if (brings_both(p) && dev->record(dev, p->feeds[OPERAND_A].newest->full, STREAM_IN, err))
        return err->code;
    return dev->record(dev, panel->full, STREAM_IN, err);
}

/* Whether parts of the panel come in the order of C's rows. */
static bool comes_by_rows(const struct panels *p, enum operand operand)
{
    return operand == OPERAND_A ? !p->problem->trans[OPERAND_A]
                                : plan_comes_by_rows(p->problem, p->plan);
}

/* The first row of C for which a part of the panel is. */
static int64_t first_row(const struct panels *p, enum operand operand, const struct block *part)
{
    bool by_cols = operand == OPERAND_B && !p->problem->trans[OPERAND_B];
    return by_cols ? part->col / schedule_file_lines(p->problem, 1) : part->row;
}

/* Copy a panel to the device, as far as it is not there: where it comes by rows the part for the
 * first `rows` rows of the tile at least. */
static int panel_fill(struct panels *p, enum operand operand, struct panel *panel, int64_t rows,
                      const struct block *tile, struct error *err)
{
    const struct block *block = &panel->whole;
    struct block_cut cut = schedule_cut(p->problem, p->plan, operand);
    bool by_rows = comes_by_rows(p, operand);
    int64_t end = block_cut_parts(block, &cut), before = panel->parts;
    while (by_rows && end > before) {
        struct block part = block_cut_part(block, &cut, end - 1);
        if (first_row(p, operand, &part) < tile->row + rows)
            break;
        end--;
    }
    while (panel->parts < end)
        if (panel_add(p, panel, err))
            return err->code;
    return end > before ? record_full(p, panel, err) : 0;
}

int panels_standardize(struct panels *p, const struct matrix *matrix, const struct block *block,
                       struct error *err)
{
    const struct block *whole = &matrix->block, part = block_common(whole, block);
    if (p->problem->standard.axis == AXIS_NONE || block_empty(&part))
        return 0;
    struct standardize s = statistics_part(&p->standard, &part);
    s.matrix = matrix_at(matrix, part.row - whole->row, part.col - whole->col);
    s.ld = matrix->ld;
    return p->device->standardize(p->device, &s, err);
}

const struct matrix *panels_factor(const struct panels *p, enum operand operand)
{
    const struct feed *feed = &p->feeds[operand];
    return embedding_needed(p->problem, operand) ? &feed->factor : &feed->current->matrix;
}

/* What the current panel has of a block becomes its part of the factor, where it is embedded. */
static int embed(struct panels *p, enum operand operand, const struct block *block,
                 struct error *err)
{
    const struct matrix *from = &p->feeds[operand].current->matrix, *to = &p->feeds[operand].factor;
    const struct block wanted = embedding_in_file(p->problem, operand, &to->block);
    struct block part = block_common(&from->block, block);
    part = block_common(&part, &wanted);
    if (!embedding_needed(p->problem, operand) || block_empty(&part))
        return 0;
    struct block becomes = embedding_of_file(p->problem, operand, &part);
    struct embed e = embedding_make(p->problem, operand, &part);
    e.from = matrix_at(from, part.row - from->block.row, part.col - from->block.col);
    e.to = matrix_at(to, becomes.row - to->block.row, becomes.col - to->block.col);
    e.ld_from = from->ld;
    e.ld_to = to->ld;
    return p->device->embed(p->device, &e, err);
}

int panels_warm_up(struct panels *p, const struct block *tile, int64_t slab, struct error *err)
{
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++) {
        struct feed *feed = &p->feeds[i];
        struct matrix *panel = &feed->current->matrix;
        panel->block = schedule_panel(p->problem, p->plan, i, tile, slab);
        feed->factor.block = schedule_factor(p->problem, p->plan, i, tile, slab);
        struct block element = {panel->block.row, panel->block.col, 1, problem_width(p->problem)};
        if ((i == OPERAND_B && panels_standardize(p, panel, &element, err)) ||
            embed(p, i, &element, err))
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
    if (dev->wait(dev, STREAM_COMPUTE, panel->full, err))
        return err->code;
    if (p->feeds[operand].buffers == 0 && !embedding_needed(p->problem, operand))
        return 0; /* it is a part of B's */
    while (panel->prepared < comes->parts) {
        struct block part = next_part(panel, comes, &cut);
        if (panels_standardize(p, &panel->matrix, &part, err) || embed(p, operand, &part, err))
            return err->code;
    }
    return 0;
}

int panels_fill(struct panels *p, int64_t rows, struct error *err)
{
    const enum operand operand = p->plan->triangle ? OPERAND_B : OPERAND_A;
    return panel_fill(p, operand, p->feeds[operand].current, rows, &p->tile, err);
}

/* Whether the tile finds all panels of the operand on the device. */
static bool is_held(const struct panels *p, enum operand operand, const struct block *tile)
{
    const struct block *before = block_equal(tile, &p->tile) ? &p->before : &p->tile;
    return schedule_held(p->plan, operand, before, tile);
}

/* The buffer of a held panel: those of all slabs end with the newest. */
static struct panel *held_panel(const struct panels *p, enum operand operand,
                                const struct block *tile, int64_t slab)
{
    const struct feed *feed = &p->feeds[operand];
    int64_t later = p->plan->slabs - 1 - slab, newest = feed->newest - feed->ring;
    struct panel *panel = &feed->ring[(newest - later + feed->buffers) % feed->buffers];
    struct block block = schedule_panel(p->problem, p->plan, operand, tile, slab);
    assert(block_equal(&panel->matrix.block, &block));
    return panel;
}

void panels_want(struct panels *p, const struct block *tile, int64_t slab)
{
    if (block_equal(tile, &p->wanted) && slab == p->wanted_slab)
        return;
    p->wanted = *tile;
    p->wanted_slab = slab;
    p->feeds[OPERAND_A].begun = p->feeds[OPERAND_B].begun = false;
}

/* Bring what is not held of a slab to the device, B first. */
static int bring(struct panels *p, const struct block *tile, int64_t slab, int64_t rows,
                 struct error *err)
{
    panels_want(p, tile, slab);
    for (int i = OPERAND_B; i >= OPERAND_A; i--) {
        enum operand operand = (enum operand)i;
        struct feed *feed = &p->feeds[operand];
        if ((operand == OPERAND_A && p->plan->triangle) || is_held(p, operand, tile))
            continue;
        if ((!feed->begun && feed_begin(p, operand, err)) ||
            panel_fill(p, operand, feed->newest, rows, tile, err))
            return err->code;
    }
    return 0;
}

int panels_prefetch(struct panels *p, const struct block *next, struct error *err)
{
    return block_empty(next) || plan_depth(p->plan) < DEEP ? 0 : bring(p, next, 0, next->rows, err);
}

/* The panel of op(A) in a triangle: what that of op(B) has of the file for the tile's rows. */
static struct panel part_of_b(const struct panels *p, const struct block *tile, int64_t slab)
{
    const struct matrix *b = &p->feeds[OPERAND_B].current->matrix;
    const struct block block = schedule_panel(p->problem, p->plan, OPERAND_A, tile, slab);
    struct panel part = *p->feeds[OPERAND_B].current;
    part.matrix.memory = matrix_at(b, block.row - b->block.row, block.col - b->block.col);
    part.matrix.block = block;
    return part;
}

int panels_load(struct panels *p, const struct block *tile, int64_t slab, int64_t rows,
                struct error *err)
{
    if (block_empty(tile) || p->plan->slabs == 0)
        return 0;
    if (bring(p, tile, slab, rows, err))
        return err->code;
    for (int i = OPERAND_A; i <= OPERAND_B; i++) {
        enum operand operand = (enum operand)i;
        struct feed *feed = &p->feeds[operand];
        if (feed->buffers > 0)
            feed->current =
                is_held(p, operand, tile) ? held_panel(p, operand, tile, slab) : feed->newest;
        feed->factor.block = schedule_factor(p->problem, p->plan, operand, tile, slab);
        if (embedding_needed(p->problem, operand)) /* into the place of the one before */
            feed->current->prepared = 0;
    }
    if (p->feeds[OPERAND_A].buffers == 0)
        p->feeds[OPERAND_A].part = part_of_b(p, tile, slab);
    if (!block_equal(tile, &p->tile))
        p->before = p->tile;
    p->tile = *tile;
    p->wanted = (struct block){0};
    return 0;
}

bool panels_try(struct panels *p, struct error *err)
{
    struct device *dev = p->device;
    const struct transfer *next = block_empty(&p->wanted) ? NULL : intake_peek(p->in);
    if (!next || next->operand == OPERAND_C || next->slab != p->wanted_slab)
        return false;
    struct feed *feed = &p->feeds[next->operand];
    if (!feed->begun &&
        (!dev->reached(dev, feed_next(feed)->used) ||
         (brings_both(p) && !dev->reached(dev, feed_next(&p->feeds[OPERAND_A])->used)) ||
         feed_begin(p, next->operand, err)))
        return false;
    return panel_add(p, feed->newest, err) == 0 && record_full(p, feed->newest, err) == 0;
}

int panels_release(struct panels *p, struct error *err)
{
    for (int operand = OPERAND_A; operand <= OPERAND_B; operand++) {
        struct panel *panel = p->feeds[operand].current;
        if (p->device->record(p->device, panel->used, STREAM_COMPUTE, err))
            return err->code;
        panel->steps = p->steps->count;
    }
    return 0;
}
