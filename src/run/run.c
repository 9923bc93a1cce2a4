/* Start reading at run_execute, then tile_multiply and strip_leave. */
#include "run.h"

#include <assert.h>
#include <string.h>

#include "device.h"
#include "error.h"
#include "layers.h"
#include "panels.h"
#include "quantity.h"
#include "waits.h"

int run_await(struct run *run, struct event *event, struct error *err)
{
    wait_begin(WAIT_FOR_DEVICE);
    run->device->sync(run->device, event, err);
    wait_end();
    return err->code;
}

/* Account for a step's time once it is done, so that its events can serve another. */
static int step_settle(struct run *run, struct step *step, struct error *err)
{
    struct device *dev = run->device;
    if (run_await(run, step->events[2], err))
        return err->code;
    meter_add(&run->products, dev->elapsed(dev, step->events[0], step->events[1]), step->flops);
    meter_add(&run->checks, dev->elapsed(dev, step->events[1], step->events[2]), 0);
    struct span product = {.stage = STAGE_GEMM, .amount = step->flops};
    struct span check = {.stage = STAGE_CHECK};
    trace_device(run->trace, product, step->events[0], step->events[1]);
    if (run->check.on)
        trace_device(run->trace, check, step->events[1], step->events[2]);
    return 0;
}

int run_settle_until(struct run *run, int64_t end, struct error *err)
{
    for (; run->settled < end; run->settled++)
        if (step_settle(run, &run->steps[run->settled % STEPS], err))
            return err->code;
    return 0;
}

int run_settle(struct run *run, struct error *err)
{
    return run_settle_until(run, run->step_count, err);
}

/* acc (+)= op(A) op(B) for `rows` of the tile and `k` steps of the slab from `first` on, of the
 * current panels.  Row-major C = op(A) op(B) is column-major C' = op(B)' op(A)': here, and nowhere
 * else, rows turn into the columns of BLAS. */
static int steps_multiply(struct run *run, const struct block *tile, const struct block *rows,
                          int64_t slab, int64_t first, int64_t k, struct error *err)
{
    struct panel *a = run->current[OPERAND_A], *b = run->current[OPERAND_B];
    const struct problem *p = run->problem;
    const int64_t *ld = run->plan->ld;
    struct device *dev = run->device;
    int64_t skip = rows->row - tile->row;
    struct gemm gemm = {
        .type = p->type,
        .trans_a = p->trans[1],
        .trans_b = p->trans[0],
        .m = rows->cols,
        .n = rows->rows,
        .k = k,
        .alpha = 1,
        .a = run_element(run, b->memory, ld[OPERAND_B], p->trans[1] ? 0 : first,
                         p->trans[1] ? first : 0),
        .lda = ld[OPERAND_B],
        .b = run_element(run, a->memory, ld[OPERAND_A], p->trans[0] ? first : skip,
                         p->trans[0] ? skip : first),
        .ldb = ld[OPERAND_A],
        .beta = slab > 0 || first > 0 || p->continues,
        .c = run_element(run, run->acc, ld[OPERAND_C], skip, 0),
        .ldc = ld[OPERAND_C],
        .peaks = check_peaks(&run->check, rows, first),
    };
    struct check_product product = {*rows, first, k, gemm.b, gemm.c};
    if (run_settle_until(run, run->step_count + 1 - STEPS, err))
        return err->code;
    struct step *step = &run->steps[run->step_count++ % STEPS];
    step->flops = 2 * (double)(rows->rows * rows->cols) * (double)k;
    if (dev->record(dev, step->events[0], STREAM_COMPUTE, err) || dev->gemm(dev, &gemm, err) ||
        dev->record(dev, step->events[1], STREAM_COMPUTE, err) ||
        check_rows(&run->check, &product, err))
        return err->code;
    return dev->record(dev, step->events[2], STREAM_COMPUTE, err);
}

/* All steps of the slab, cut where the check compares. */
static int rows_multiply(struct run *run, const struct block *tile, const struct block *rows,
                         int64_t slab, struct error *err)
{
    const struct block *a = &run->current[OPERAND_A]->block;
    int64_t k = run->problem->trans[0] ? a->rows : a->cols, part = check_part(&run->check, k);
    for (int64_t first = 0; first < k; first += part)
        if (steps_multiply(run, tile, rows, slab, first, min_i64(part, k - first), err))
            return err->code;
    return 0;
}

/* Launch the kernels of the run once, on one element of C and whatever is in memory, and wait for
 * them: a kernel's first launch loads it, which waits for those at work. */
int run_warm_up(struct run *run, struct error *err)
{
    const struct problem *p = run->problem;
    struct device *dev = run->device;
    struct block corner = {0, 0, 1, 1};
    struct combine combine = {
        p->type, 1, 1, p->alpha, p->beta, run->acc, run->c0[0], run->plan->ld[OPERAND_C], 1};
    struct event *combined = run->left[0];
    if (dev->combine(dev, &combine, err) || dev->record(dev, combined, STREAM_OUT, err) ||
        dev->sync(dev, combined, err))
        return err->code;
    if (run->plan->slabs == 0)
        return 0;
    int64_t last = run->plan->slabs - 1;
    for (int i = OPERAND_A; i <= OPERAND_B; i++)
        run->current[i]->block = schedule_panel(p, run->plan, (enum operand)i, &corner, last);
    if (check_begin(&run->check, &corner, err) ||
        check_columns(&run->check, last, run->current[OPERAND_B]->memory, run->acc, err) ||
        rows_multiply(run, &corner, &corner, 0, err))
        return err->code;
    struct event *done = run->steps[0].events[2];
    run->step_count = 0; /* that was no step */
    if (dev->record(dev, done, STREAM_COMPUTE, err) || dev->sync(dev, done, err))
        return err->code;
    return 0;
}

/* A part of C0 to the device; `buffer` alternates. */
static int c0_load(struct run *run, const struct block *part, int buffer, struct error *err)
{
    struct device *dev = run->device;
    if (dev->wait(dev, STREAM_IN, run->c0_used[buffer], err) ||
        panels_copy_in(run, run->c0[buffer], part->cols, part, err) ||
        dev->record(dev, run->c0_used[buffer], STREAM_IN, err))
        return err->code;
    return dev->wait(dev, STREAM_OUT, run->c0_used[buffer], err);
}

/* C = alpha acc + beta C0 in the accumulators of one part of the leaving tile. */
static int part_combine(struct run *run, const struct block *part, void *acc, struct error *err)
{
    const struct problem *p = run->problem;
    struct device *dev = run->device;
    int buffer = (int)(run->parts_left++ % 2);
    double alpha = run->plan->slabs ? p->alpha : 0;
    struct combine combine = {p->type,   part->rows, part->cols,      alpha,
                              p->beta,   acc,        run->c0[buffer], run->plan->ld[OPERAND_C],
                              part->cols};
    if (alpha == 1 && p->beta == 0)
        return 0;
    if (problem_reads_c(p) && c0_load(run, part, buffer, err))
        return err->code;
    if (dev->combine(dev, &combine, err))
        return err->code;
    return problem_reads_c(p) ? dev->record(dev, run->c0_used[buffer], STREAM_OUT, err) : 0;
}

int run_take_out(struct run *run, const struct block *tile, const struct block *part,
                 struct error *err)
{
    struct device *dev = run->device;
    int64_t ld = run->plan->ld[OPERAND_C];
    void *acc = run_element(run, run->acc, ld, part->row - tile->row, part->col - tile->col);
    size_t size = scalar_size(run->problem->type), width = (size_t)part->cols * size;
    struct slot *slot;
    while (!outlet_ready(&run->out) && panels_ahead(run, err))
        ;
    if (err->code || outlet_take(&run->out, &slot, err))
        return err->code;
    struct copy copy = {slot->memory, acc, width, (size_t)ld * size, width, (size_t)part->rows};
    if (dev->record(dev, slot->start, STREAM_OUT, err) || dev->copy(dev, STREAM_OUT, &copy, err) ||
        dev->record(dev, slot->done, STREAM_OUT, err))
        return err->code;
    slot->transfer = (struct transfer){.operand = OPERAND_C, .block = *part};
    outlet_give(&run->out, slot);
    return 0;
}

/* One slot's worth of the leaving tile. */
static int part_leave(struct run *run, const struct block *part, struct error *err)
{
    const struct block *tile = &run->leaving;
    void *acc = run_element(run, run->acc, run->plan->ld[OPERAND_C], part->row - tile->row,
                            part->col - tile->col);
    return part_combine(run, part, acc, err) || run_take_out(run, tile, part, err) ? err->code : 0;
}

/* A strip of the leaving tile on its way to the disk, as soon as its products are done; those of
 * the next tile in its place wait until it has left the device. */
static int strip_leave(struct run *run, int64_t index, struct error *err)
{
    struct device *dev = run->device;
    struct block strip = schedule_strip(run->plan, &run->leaving, index);
    struct block_cut cut = schedule_cut(run->problem, run->plan, OPERAND_C);
    int64_t parts = block_cut_parts(&strip, &cut);
    if (parts == 0)
        return 0;
    if (dev->wait(dev, STREAM_OUT, run->summed[index], err))
        return err->code;
    for (int64_t i = 0; i < parts; i++) {
        struct block part = block_cut_part(&strip, &cut, i);
        if (part_leave(run, &part, err))
            return err->code;
    }
    if (check_leave(&run->check, &run->leaving, &strip, err) ||
        dev->record(dev, run->left[index], STREAM_OUT, err) ||
        dev->wait(dev, STREAM_COMPUTE, run->left[index], err))
        return err->code;
    if (index + 1 == schedule_strips(run->plan, &run->leaving))
        run->leaving = (struct block){0};
    return 0;
}

int run_leave(struct run *run, struct error *err)
{
    for (int64_t i = 0; !block_empty(&run->leaving); i++) {
        if (comm_raised(run->comm))
            return err->code = ERROR_ELSEWHERE;
        if (strip_leave(run, i, err))
            return err->code;
    }
    return 0;
}

/* A tile's first slab follows the tile before strip by strip out of the accumulators, or A's rows
 * as they come; and its last one goes strip by strip, so that the first strips leave while the
 * others are multiplied. */
static int slab_by_strips(struct run *run, const struct block *tile, int64_t slab,
                          struct error *err)
{
    struct panel *a = run->current[OPERAND_A];
    struct device *dev = run->device;
    int64_t strips = schedule_strips(run->plan, tile);
    if (slab == 0 && run->plan->slabs > 1)
        panels_expect(run, tile, 1);
    for (int64_t i = 0; i < strips || !block_empty(&run->leaving); i++) {
        struct block strip = schedule_strip(run->plan, tile, i);
        if (comm_raised(run->comm))
            return err->code = ERROR_ELSEWHERE;
        if (slab == 0 && strip_leave(run, i, err))
            return err->code;
        if (block_empty(&strip))
            continue;
        if (panels_fill_a(run, strip.row - tile->row + strip.rows, err) ||
            dev->wait(dev, STREAM_COMPUTE, a->full, err) ||
            rows_multiply(run, tile, &strip, slab, err) ||
            dev->record(dev, run->summed[i], STREAM_COMPUTE, err))
            return err->code;
    }
    return 0;
}

static int slab_multiply(struct run *run, const struct block *tile, int64_t slab, struct error *err)
{
    struct panel *a = run->current[OPERAND_A], *b = run->current[OPERAND_B];
    struct device *dev = run->device;
    bool by_strips = slab == 0 || slab + 1 == run->plan->slabs;
    if (dev->wait(dev, STREAM_COMPUTE, b->full, err) ||
        (!by_strips && dev->wait(dev, STREAM_COMPUTE, a->full, err)) ||
        check_columns(&run->check, slab, b->memory, run->acc, err))
        return err->code;
    if (by_strips ? slab_by_strips(run, tile, slab, err)
                  : rows_multiply(run, tile, tile, slab, err))
        return err->code;
    if (dev->record(dev, a->used, STREAM_COMPUTE, err) ||
        dev->record(dev, b->used, STREAM_COMPUTE, err))
        return err->code;
    a->steps = b->steps = run->step_count;
    return 0;
}

/* All slabs of a tile, the first of which is on its way; and then the first one of the next
 * tile, so that it is there when this one leaves. */
static int tile_multiply(struct run *run, int64_t super, const struct block *before,
                         const struct block *tile, const struct block *next, struct error *err)
{
    int64_t slabs = run->plan->slabs;
    if (check_begin(&run->check, tile, err) ||
        (run->problem->continues && check_resume(&run->check, run->acc, err)))
        return err->code;
    for (int64_t slab = 0; slab < slabs && !comm_raised(run->comm); slab++) {
        bool last = slab + 1 == slabs;
        if (outlet_check(&run->out, err) || (last && panels_prefetch(run, tile, next, err)) ||
            slab_multiply(run, tile, slab, err))
            return err->code;
        if (!last && save_step(run, super, slab + 1, tile, err))
            return err->code;
        if (last ? panels_load(run, tile, next, 0, next->rows, err)
                 : panels_load(run, before, tile, slab + 1, tile->rows, err))
            return err->code;
    }
    return 0;
}

static int finish(struct run *run, struct error *err)
{
    if (check_judge(&run->check, err) || run_settle(run, err))
        return err->code;
    if (intake_finish(&run->in, err) || outlet_finish(&run->out, err))
        return err->code;
    return store_sync(run->output, err);
}

/* A super-block in which this rank has no tile.  What it needs first of the next one is loaded
 * before the last step, as by all others: in a step they may wait for each other. */
static int super_pass(struct run *run, int64_t super, const struct block *before,
                      const struct block *next, struct error *err)
{
    const struct block none = {0};
    int64_t slabs = run->plan->slabs > 0 ? run->plan->slabs : 1;
    for (int64_t slab = 1; slab <= slabs; slab++)
        if ((slab == slabs && panels_load(run, before, next, 0, next->rows, err)) ||
            save_step(run, super, slab, &none, err))
            return err->code;
    return 0;
}

static int all_tiles(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    int rank = comm_place(run->comm);
    int64_t found = 0; /* the super-block after that of `tile` */
    const struct block none = {0};
    struct block before = {0}, next;
    struct block tile = schedule_next_tile(run->problem, plan, rank, &found);
    if (panels_load(run, &before, &tile, 0, 0, err))
        return err->code;
    for (int64_t super = 0; super < schedule_supers(plan); super++) {
        if (block_empty(&tile) || super + 1 < found) {
            bool comes = super + 2 == found;
            if (super_pass(run, super, &before, comes ? &tile : &none, err))
                return err->code;
            continue;
        }
        next = schedule_next_tile(run->problem, plan, rank, &found);
        bool follows = !block_empty(&next) && found == super + 2;
        if (tile_multiply(run, super, &before, &tile, follows ? &next : &none, err))
            return err->code;
        if (comm_raised(run->comm))
            return err->code = ERROR_ELSEWHERE;
        run->tiles++;
        run->leaving = tile;
        bool stays = plan->layers > 1; /* until the other layers' products are added */
        if ((!follows || plan->slabs == 0) && !stays && run_leave(run, err))
            return err->code;
        if (save_step(run, super, plan->slabs > 0 ? plan->slabs : 1, &tile, err))
            return err->code;
        before = tile;
        tile = next;
    }
    if (save_finish(run, err))
        return err->code;
    return plan->layers > 1 ? run_settle(run, err) : finish(run, err);
}

/* The sum of all layers is in the first one's tile; `left_out`: of the check of some layer. */
static int sum_leave(struct run *run, bool left_out, struct error *err)
{
    const struct block *tile = &run->leaving;
    struct device *dev = run->device;
    if (check_layers(&run->check, run->plan->layers, left_out, run->acc, err))
        return err->code;
    for (int64_t i = 0; i < schedule_strips(run->plan, tile); i++)
        if (dev->record(dev, run->summed[i], STREAM_COMPUTE, err))
            return err->code;
    return run_leave(run, err);
}

/* Add what the layers have multiplied, once all of them have. */
static int add_layers(struct run *run, struct error *err)
{
    struct slot *slots[2] = {0};
    for (int i = 0; i < 2 && !err->code; i++)
        outlet_take(&run->out, &slots[i], err);
    if (err->code > 0)
        comm_raise(run->comm); /* others may be at their last steps */
    if (comm_agree(run->comm, err))
        return err->code;
    bool works = !block_empty(&run->leaving);
    if (works)
        check_now(&run->check, run->acc, err);
    bool left_out = comm_sum(works && check_left_out(&run->check)) > 0;
    if (works)
        layers_add(run, &run->leaving, slots, err);
    for (int i = 0; i < 2; i++)
        outlet_return(&run->out, slots[i]);
    if (!err->code && run->comm->layer == 0 && works)
        sum_leave(run, left_out, err);
    return err->code ? err->code : finish(run, err);
}

/* The complaint of one of this rank's threads, if any has one. */
static void say_why(struct run *run, struct error *err)
{
    struct error of_intake = {0}, of_outlet = {0};
    if (intake_check(&run->in, &of_intake) > 0)
        *err = of_intake;
    else if (outlet_check(&run->out, &of_outlet) > 0)
        *err = of_outlet;
}

int run_execute(struct run *run, struct error *err)
{
    if (exchange_open(&run->exchange, run->comm, &run->in, &run->cache, run->trace, err) ||
        all_tiles(run, err)) { /* those who wait for this rank's copies would wait for ever */
        run_stop(run);
        if (err->code == ERROR_ELSEWHERE) /* or was it a thread of this rank that failed? */
            say_why(run, err);
    }
    exchange_finish(&run->exchange);
    if (run->plan->layers > 1)
        add_layers(run, err);
    return err->code;
}
