#include "normal.h"

#include <stdlib.h>

#include "device.h"
#include "error.h"
#include "phase.h"
#include "quantity.h"
#include "run_state.h"
#include "schedule.h"
#include "store.h"

static int write_block(void *context, const struct block *block, void *memory, struct error *err)
{
    struct run *run = context;
    return store_write(run->normal.store, block, memory, err);
}

/* Some rows of X, to their place on the device. */
static int send_rows(struct run *run, struct store *from, const struct block *rows, void *memory,
                     struct error *err)
{
    struct device *dev = run->device;
    struct event *sent = run->normal.left[0];
    const struct copy copy = device_matrix_copy_in(&run->normal.x, rows, memory);
    return store_read(from, rows, memory, err) || dev->copy(dev, STREAM_IN, &copy, err) ||
                   dev->record(dev, sent, STREAM_IN, err) || dev->sync(dev, sent, err)
               ? err->code
               : 0;
}

/* In parts of as many rows as a slot holds, or of one. */
static int send_x(struct run *run, struct error *err)
{
    const struct block *all = &run->normal.x.block;
    const size_t row = (size_t)all->cols * scalar_size(run->problem->type);
    const int64_t most = max_i64(1, (int64_t)(run->plan->slot_bytes / row));
    void *memory = malloc((size_t)most * row);
    if (!memory)
        return error_no_memory(err, "a part of B");
    for (int64_t first = 0; first < all->rows && !err->code; first += most) {
        const struct block rows = {first, all->col, min_i64(most, all->rows - first), all->cols};
        send_rows(run, run->stores[OPERAND_B], &rows, memory, err);
    }
    free(memory);
    return err->code;
}

int normal_open(struct run *run, struct error *err)
{
    struct normal *n = &run->normal;
    struct block tile = schedule_tile(run->problem, run->plan, comm_place(run->comm), 0);
    tile.row = 0;
    n->problem = problem_inner(run->problem);
    n->plan = plan_inner(run->problem, run->plan);
    n->x = (struct device_matrix){run->problem->type, n->x.memory, run->plan->ld[OPERAND_C], tile};
    n->to = (struct sink){write_block, run, scalar_size(run->problem->type)};
    n->check.problem = &n->problem;
    n->check.plan = &n->plan;
    n->check.device = run->device;
    n->check.seed = run->check.seed;
    phase_begin("reading B", problem_bytes(run->problem, OPERAND_B));
    if (store_open(n->output, run->problem->type, STORE_WRITE, run->problem->io, &n->store, err) ||
        events_create(run->device, n->left, NORMAL_TURNS, err) ||
        check_open(&n->check, run->request->algorithm, n->check_memory, err))
        return err->code;
    return block_empty(&tile) ? 0 : send_x(run, err);
}

void normal_close(struct run *run)
{
    struct normal *n = &run->normal;
    if (!n->check.device)
        return;
    check_close(&n->check);
    events_destroy(run->device, n->left, NORMAL_TURNS);
    store_close(n->store);
}

/* op(B) of the slab, in parts of its steps as the check compares them.  As in steps_multiply, rows
 * turn into columns. */
static int multiply(struct run *run, const struct device_matrix *b, struct error *err)
{
    struct normal *n = &run->normal;
    struct device *dev = run->device;
    const struct device_matrix *a = panels_factor(&run->panels, OPERAND_A);
    const bool trans = n->problem.trans[OPERAND_A];
    const int64_t part = check_part(&n->check, n->problem.k);
    for (int64_t first = 0; first < n->problem.k; first += part) {
        const int64_t k = min_i64(part, n->problem.k - first);
        const struct gemm gemm = {.type = n->problem.type,
                                  .trans_b = trans,
                                  .m = b->block.cols,
                                  .n = b->block.rows,
                                  .k = k,
                                  .alpha = 1,
                                  .a = device_matrix_at(&n->x, first, 0),
                                  .lda = n->x.ld,
                                  .b = device_matrix_at(a, trans ? first : 0, trans ? 0 : first),
                                  .ldb = a->ld,
                                  .beta = first > 0,
                                  .c = b->memory,
                                  .ldc = b->ld,
                                  .peaks = check_peaks(&n->check, &b->block, first)};
        const struct check_product product = {b->block, first, k, gemm.b, gemm.c};
        struct enqueued_product *enqueued;
        if (products_begin(&run->products, 0, &enqueued, err) || dev->gemm(dev, &gemm, err) ||
            dev->record(dev, enqueued->points[PRODUCT_MULTIPLIED], STREAM_COMPUTE, err) ||
            check_rows(&n->check, &product, err) ||
            dev->record(dev, enqueued->points[PRODUCT_CHECKED], STREAM_COMPUTE, err))
            return err->code;
    }
    return 0;
}

/* op(B) of the slab is judged, and leaves. */
static int leave(struct run *run, const struct device_matrix *b, struct event *left,
                 struct error *err)
{
    struct device *dev = run->device;
    const struct block_cut cut = {.elements =
                                      (int64_t)(run->plan->slot_bytes / run->normal.to.element)};
    const int64_t parts = block_cut_parts(&b->block, &cut);
    if (dev->record(dev, left, STREAM_COMPUTE, err) || dev->wait(dev, STREAM_OUT, left, err) ||
        check_drain(&run->normal.check, &b->block, &b->block, err))
        return err->code;
    for (int64_t i = 0; i < parts; i++) {
        const struct block part = block_cut_part(&b->block, &cut, i);
        if (outlet_copy(&run->out, b, &part, &run->normal.to, err))
            return err->code;
    }
    return dev->record(dev, left, STREAM_OUT, err);
}

int normal_multiply(struct run *run, int64_t slab, struct error *err)
{
    struct normal *n = &run->normal;
    const struct slab k = schedule_slab(run->problem, run->plan, slab);
    struct device_matrix b = *panels_factor(&run->panels, OPERAND_B);
    struct event *left = n->left[slab % NORMAL_TURNS];
    b.block = (struct block){k.first, n->x.block.col, k.size, n->x.block.cols};
    return panels_prepare(&run->panels, OPERAND_A, err) ||
                   run->device->wait(run->device, STREAM_COMPUTE, left, err) ||
                   check_begin(&n->check, &b.block, err) ||
                   check_slab(&n->check, 0, n->x.memory, b.memory, err) || multiply(run, &b, err) ||
                   leave(run, &b, left, err)
               ? err->code
               : 0;
}

int normal_settle(struct run *run, struct error *err)
{
    return check_judge(&run->normal.check, err) || store_sync(run->normal.store, err) ? err->code
                                                                                      : 0;
}
