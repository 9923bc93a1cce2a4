/* Someone new: start at run_execute, then tile_multiply and tile_drain. */
#include "run.h"

#include <assert.h>
#include <string.h>

#include "device.h"
#include "error.h"

/* Where element (row, col) of a device matrix lies. */
static void *element(const struct run *run, void *matrix, int64_t ld, int64_t row, int64_t col)
{
    return (char *)matrix + (size_t)(row * ld + col) * scalar_size(run->problem->type);
}

/* Copy the next filled slot to the device; `matrix` holds `block` of the file there. */
static int copy_in(struct run *run, void *matrix, int64_t ld, const struct block *block,
                   struct error *err)
{
    struct device *dev = run->device;
    struct slot *slot;
    if (staging_take(&run->in, &slot, err))
        return err->code;
    const struct block *part = &slot->transfer.block;
    assert(part->row >= block->row && part->row + part->rows <= block->row + block->rows);
    size_t size = scalar_size(run->problem->type), width = (size_t)part->cols * size;
    struct copy copy = {element(run, matrix, ld, part->row - block->row, part->col - block->col),
                        slot->memory,
                        (size_t)ld * size,
                        width,
                        width,
                        (size_t)part->rows};
    if (dev->record(dev, slot->start, STREAM_IN, err) || dev->copy(dev, STREAM_IN, &copy, err) ||
        dev->record(dev, slot->done, STREAM_IN, err))
        return err->code;
    staging_give(&run->in, slot);
    return 0;
}

/* Bring the panel of A or B for one slab of a tile to the device, into the next buffer once the
 * product that last read it is done; nothing to do when the newest panel is that one. */
static int panel_load(struct run *run, enum operand operand, const struct block *tile, int64_t slab,
                      struct error *err)
{
    struct device *dev = run->device;
    struct block block = schedule_panel(run->problem, run->plan, operand, tile, slab);
    struct panel *panel = run->newest[operand];
    if (block_equal(&panel->block, &block))
        return 0;
    panel = &run->panels[operand][panel == run->panels[operand]];
    if (dev->sync(dev, panel->used, err))
        return err->code;
    struct block_cut cut = schedule_cut(run->problem, run->plan, operand);
    int64_t parts = block_cut_parts(&block, &cut);
    for (int64_t i = 0; i < parts; i++)
        if (copy_in(run, panel->memory, run->plan->ld[operand], &block, err))
            return err->code;
    panel->block = block;
    run->newest[operand] = panel;
    return dev->record(dev, panel->full, STREAM_IN, err);
}

static int slab_load(struct run *run, const struct block *tile, int64_t slab, struct error *err)
{
    if (block_empty(tile) || run->plan->slabs == 0)
        return 0;
    if (panel_load(run, OPERAND_A, tile, slab, err) || panel_load(run, OPERAND_B, tile, slab, err))
        return err->code;
    return 0;
}

/* Account for a step's time once it is done, so that its events can serve another. */
static int step_settle(struct run *run, struct step *step, struct error *err)
{
    struct device *dev = run->device;
    if (step->flops == 0)
        return 0;
    if (dev->sync(dev, step->events[2], err))
        return err->code;
    meter_add(&run->stages[STAGE_GEMM], dev->elapsed(dev, step->events[0], step->events[1]),
              step->flops);
    meter_add(&run->stages[STAGE_CHECK], dev->elapsed(dev, step->events[1], step->events[2]), 0);
    step->flops = 0;
    return 0;
}

/* acc (+)= op(A) slab * op(B) slab, of the newest panels.  Row-major C = op(A) op(B) is
 * column-major C' = op(B)' op(A)': here, and nowhere else, rows turn into the columns of BLAS. */
static int slab_multiply(struct run *run, const struct block *tile, int64_t slab, struct error *err)
{
    struct panel *a = run->newest[OPERAND_A], *b = run->newest[OPERAND_B];
    const struct problem *p = run->problem;
    struct device *dev = run->device;
    int64_t k = p->trans[0] ? a->block.rows : a->block.cols;
    struct gemm gemm = {
        .type = p->type,
        .trans_a = p->trans[1],
        .trans_b = p->trans[0],
        .m = tile->cols,
        .n = tile->rows,
        .k = k,
        .alpha = 1,
        .a = b->memory,
        .lda = run->plan->ld[OPERAND_B],
        .b = a->memory,
        .ldb = run->plan->ld[OPERAND_A],
        .beta = slab > 0,
        .c = run->acc,
        .ldc = run->plan->ld[OPERAND_C],
    };
    struct step *step = &run->steps[run->step_count++ % STEPS];
    if (step_settle(run, step, err))
        return err->code;
    step->flops = 2 * (uint64_t)(tile->rows * tile->cols) * (uint64_t)k;
    if (dev->wait(dev, STREAM_COMPUTE, a->full, err) ||
        dev->wait(dev, STREAM_COMPUTE, b->full, err) ||
        dev->record(dev, step->events[0], STREAM_COMPUTE, err) || dev->gemm(dev, &gemm, err) ||
        dev->record(dev, step->events[1], STREAM_COMPUTE, err) ||
        check_slab(&run->check, slab, a->memory, b->memory, err) ||
        dev->record(dev, step->events[2], STREAM_COMPUTE, err) ||
        dev->record(dev, a->used, STREAM_COMPUTE, err) ||
        dev->record(dev, b->used, STREAM_COMPUTE, err))
        return err->code;
    return 0;
}

/* All slabs of a tile, the first of which is on its way; and then the first one of the next
 * tile, so that it is there when this one has left. */
static int tile_multiply(struct run *run, const struct block *tile, const struct block *next,
                         struct error *err)
{
    int64_t slabs = run->plan->slabs;
    if (check_begin(&run->check, tile, err))
        return err->code;
    for (int64_t slab = 0; slab < slabs && !comm_raised(run->comm); slab++) {
        if (slab_multiply(run, tile, slab, err))
            return err->code;
        bool last = slab + 1 == slabs;
        if (slab_load(run, last ? next : tile, last ? 0 : slab + 1, err))
            return err->code;
    }
    return check_end(&run->check, run->acc, err);
}

/* A strip of C0 to the device; `index` alternates between the two buffers. */
static int strip_load(struct run *run, const struct block *strip, int64_t index, struct error *err)
{
    struct device *dev = run->device;
    if (dev->wait(dev, STREAM_IN, run->c0_used[index % 2], err) ||
        copy_in(run, run->c0[index % 2], strip->cols, strip, err) ||
        dev->record(dev, run->c0_used[index % 2], STREAM_IN, err))
        return err->code;
    return dev->wait(dev, STREAM_COMPUTE, run->c0_used[index % 2], err);
}

/* One strip: C = alpha acc + beta C0, and out. */
static int strip_drain(struct run *run, const struct block *tile, int64_t index, struct error *err)
{
    const struct problem *p = run->problem;
    struct device *dev = run->device;
    struct block_cut cut = schedule_cut(p, run->plan, OPERAND_C);
    struct block strip = block_cut_part(tile, &cut, index);
    int64_t ld = run->plan->ld[OPERAND_C];
    void *acc = element(run, run->acc, ld, strip.row - tile->row, strip.col - tile->col);
    double alpha = run->plan->slabs ? p->alpha : 0;
    struct combine combine = {p->type, strip.rows,         strip.cols, alpha,     p->beta,
                              acc,     run->c0[index % 2], ld,         strip.cols};
    struct slot *slot;
    if (problem_reads_c(p) && strip_load(run, &strip, index, err))
        return err->code;
    if (dev->combine(dev, &combine, err))
        return err->code;
    if (problem_reads_c(p) && dev->record(dev, run->c0_used[index % 2], STREAM_COMPUTE, err))
        return err->code;
    if (staging_take(&run->out, &slot, err))
        return err->code;
    size_t size = scalar_size(p->type), width = (size_t)strip.cols * size;
    struct copy copy = {slot->memory, acc, width, (size_t)ld * size, width, (size_t)strip.rows};
    if (dev->record(dev, slot->ready, STREAM_COMPUTE, err) ||
        dev->wait(dev, STREAM_OUT, slot->ready, err) ||
        dev->record(dev, slot->start, STREAM_OUT, err) || dev->copy(dev, STREAM_OUT, &copy, err) ||
        dev->record(dev, slot->done, STREAM_OUT, err))
        return err->code;
    slot->transfer = (struct transfer){OPERAND_C, strip};
    staging_give(&run->out, slot);
    return 0;
}

/* The finished tile leaves strip by strip; the next one's first product waits until it is gone. */
static int tile_drain(struct run *run, const struct block *tile, struct error *err)
{
    struct device *dev = run->device;
    struct block_cut cut = schedule_cut(run->problem, run->plan, OPERAND_C);
    int64_t strips = block_cut_parts(tile, &cut);
    for (int64_t i = 0; i < strips && !comm_raised(run->comm); i++)
        if (strip_drain(run, tile, i, err))
            return err->code;
    if (dev->record(dev, run->drained, STREAM_OUT, err) ||
        dev->wait(dev, STREAM_COMPUTE, run->drained, err))
        return err->code;
    return check_judge(&run->check, err);
}

static int finish(struct run *run, struct error *err)
{
    for (int i = 0; i < STEPS; i++)
        if (step_settle(run, &run->steps[i], err))
            return err->code;
    if (staging_finish(&run->in, err) || staging_finish(&run->out, err))
        return err->code;
    run->stages[STAGE_READ] = run->in.disk;
    run->stages[STAGE_IN] = run->in.link;
    run->stages[STAGE_OUT] = run->out.link;
    run->stages[STAGE_WRITE] = run->out.disk;
    return 0;
}

int run_execute(struct run *run, struct error *err)
{
    int64_t super = 0;
    int rank = run->comm->rank;
    struct block next, tile = schedule_next_tile(run->problem, run->plan, rank, &super);
    if (slab_load(run, &tile, 0, err))
        return err->code;
    for (; !block_empty(&tile); tile = next) {
        next = schedule_next_tile(run->problem, run->plan, rank, &super);
        if (tile_multiply(run, &tile, &next, err))
            return err->code;
        if (comm_raised(run->comm))
            return 0;
        if (tile_drain(run, &tile, err))
            return err->code;
    }
    return finish(run, err);
}
