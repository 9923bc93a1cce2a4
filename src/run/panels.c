#include "panels.h"

#include <assert.h>

#include "device.h"
#include "quantity.h"
#include "schedule.h"

enum { DEEP = 4 }; /* buffers, with which a panel can come while two products wait for theirs */

int panels_copy_in(struct run *run, void *matrix, int64_t ld, const struct block *block,
                   struct error *err)
{
    struct device *dev = run->device;
    struct slot *slot;
    if (intake_take(&run->in, &slot, err))
        return err->code;
    const struct block *part = &slot->transfer.block;
    assert(part->row >= block->row && part->row + part->rows <= block->row + block->rows);
    size_t size = scalar_size(run->problem->type), width = (size_t)part->cols * size;
    struct copy copy = {
        run_element(run, matrix, ld, part->row - block->row, part->col - block->col),
        slot->memory,
        (size_t)ld * size,
        width,
        width,
        (size_t)part->rows};
    if (dev->record(dev, slot->start, STREAM_IN, err) || dev->copy(dev, STREAM_IN, &copy, err) ||
        dev->record(dev, slot->done, STREAM_IN, err))
        return err->code;
    intake_give(&run->in, slot);
    return 0;
}

/* The buffer after the newest one. */
static struct panel *panel_next(const struct run *run, enum operand operand)
{
    int64_t last = run->newest[operand] - run->panels[operand];
    return &run->panels[operand][(last + 1) % run->plan->buffers[operand]];
}

/* Make the next buffer that of a slab's panel of A or B, once the product that last read it is
 * done. */
static int panel_begin(struct run *run, enum operand operand, const struct block *tile,
                       int64_t slab, struct error *err)
{
    struct panel *panel = panel_next(run, operand);
    if (run_await(run, panel->used, err) || run_settle_until(run, panel->steps, err))
        return err->code;
    panel->block = schedule_panel(run->problem, run->plan, operand, tile, slab);
    panel->parts = 0;
    run->newest[operand] = panel;
    return 0;
}

/* Copy the next part of a panel to the device. */
static int panel_add(struct run *run, enum operand operand, struct panel *panel, struct error *err)
{
    panel->parts++;
    return panels_copy_in(run, panel->memory, run->plan->ld[operand], &panel->block, err);
}

/* Copy a panel to the device, as far as it is not there: of A at least the part for the first
 * `rows` of the tile. */
static int panel_fill(struct run *run, enum operand operand, struct panel *panel, int64_t rows,
                      struct error *err)
{
    const struct block *block = &panel->block;
    struct block_cut cut = schedule_cut(run->problem, run->plan, operand);
    bool by_rows = operand == OPERAND_A && !run->problem->trans[OPERAND_A];
    int64_t end = block_cut_parts(block, &cut), before = panel->parts;
    while (by_rows && end > before && block_cut_part(block, &cut, end - 1).row >= block->row + rows)
        end--;
    while (panel->parts < end)
        if (panel_add(run, operand, panel, err))
            return err->code;
    return end > before ? run->device->record(run->device, panel->full, STREAM_IN, err) : 0;
}

int panels_fill_a(struct run *run, int64_t rows, struct error *err)
{
    return panel_fill(run, OPERAND_A, run->current[OPERAND_A], rows, err);
}

/* The buffer of a held panel: those of all slabs end with the newest. */
static struct panel *panel_held(const struct run *run, enum operand operand,
                                const struct block *tile, int64_t slab)
{
    int64_t buffers = run->plan->buffers[operand], later = run->plan->slabs - 1 - slab;
    int64_t newest = run->newest[operand] - run->panels[operand];
    struct panel *panel = &run->panels[operand][(newest - later + buffers) % buffers];
    struct block block = schedule_panel(run->problem, run->plan, operand, tile, slab);
    assert(block_equal(&panel->block, &block));
    return panel;
}

/* Load the newest panel, which is that of a slab, or is to become it. */
static int panel_load(struct run *run, enum operand operand, const struct block *tile, int64_t slab,
                      int64_t rows, struct error *err)
{
    if (!run->ahead.begun[operand] && panel_begin(run, operand, tile, slab, err))
        return err->code;
    run->ahead.begun[operand] = true;
    return panel_fill(run, operand, run->newest[operand], rows, err);
}

int panels_prefetch(struct run *run, const struct block *before, const struct block *tile,
                    struct error *err)
{
    int64_t buffers = min_i64(run->plan->buffers[OPERAND_A], run->plan->buffers[OPERAND_B]);
    if (block_empty(tile) || buffers < DEEP)
        return 0;
    panels_expect(run, tile, 0);
    for (int i = OPERAND_B; i >= OPERAND_A; i--) {
        enum operand operand = (enum operand)i;
        if (!schedule_held(run->plan, operand, before, tile) &&
            panel_load(run, operand, tile, 0, tile->rows, err))
            return err->code;
    }
    return 0;
}

int panels_load(struct run *run, const struct block *before, const struct block *tile, int64_t slab,
                int64_t a_rows, struct error *err)
{
    if (block_empty(tile) || run->plan->slabs == 0)
        return 0;
    for (int i = OPERAND_B; i >= OPERAND_A; i--) {
        enum operand operand = (enum operand)i;
        if (schedule_held(run->plan, operand, before, tile)) {
            run->current[operand] = panel_held(run, operand, tile, slab);
            continue;
        }
        if (panel_load(run, operand, tile, slab, a_rows, err))
            return err->code;
        run->current[operand] = run->newest[operand];
    }
    run->ahead = (struct ahead){0};
    return 0;
}

void panels_expect(struct run *run, const struct block *tile, int64_t slab)
{
    run->ahead = (struct ahead){.tile = *tile, .slab = slab};
}

bool panels_ahead(struct run *run, struct error *err)
{
    struct ahead *ahead = &run->ahead;
    struct device *dev = run->device;
    const struct transfer *next = block_empty(&ahead->tile) ? NULL : intake_peek(&run->in);
    if (!next || next->operand == OPERAND_C || next->slab != ahead->slab)
        return false;
    enum operand operand = next->operand;
    if (!ahead->begun[operand]) {
        if (!dev->reached(dev, panel_next(run, operand)->used) ||
            panel_begin(run, operand, &ahead->tile, ahead->slab, err))
            return false;
        ahead->begun[operand] = true;
    }
    struct panel *panel = run->newest[operand];
    return panel_add(run, operand, panel, err) == 0 &&
           dev->record(dev, panel->full, STREAM_IN, err) == 0;
}
