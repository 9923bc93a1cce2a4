#include "normal.h"

#include <stdlib.h>

#include "device.h"
#include "error.h"
#include "phase.h"
#include "planner.h"
#include "quantity.h"
#include "schedule.h"
#include "store.h"

static int write_block(void *context, const struct block *block, void *memory, struct error *err)
{
    struct normal *n = context;
    return store_write(n->store, block, memory, err);
}

/* Some rows of X, to their place on the device. */
static int send_rows(struct normal *n, const struct block *rows, void *memory, struct error *err)
{
    struct device *dev = n->device;
    struct event *sent = n->left[0];
    const struct copy copy = device_matrix_copy_in(&n->x, rows, memory);
    return store_read(n->from, rows, memory, err) || dev->copy(dev, STREAM_IN, &copy, err) ||
                   dev->record(dev, sent, STREAM_IN, err) || dev->sync(dev, sent, err)
               ? err->code
               : 0;
}

/* In parts of as many rows as a slot holds, or of one. */
static int send_x(struct normal *n, struct error *err)
{
    const struct block *all = &n->x.block;
    const size_t row = (size_t)all->cols * scalar_size(n->problem.type);
    const int64_t most = max_i64(1, (int64_t)(n->plan.slot_bytes / row));
    void *memory = malloc((size_t)most * row);
    if (!memory)
        return error_no_memory(err, "a part of B");
    for (int64_t first = 0; first < all->rows && !err->code; first += most) {
        const struct block rows = {first, all->col, min_i64(most, all->rows - first), all->cols};
        send_rows(n, &rows, memory, err);
    }
    free(memory);
    return err->code;
}

int normal_open(struct normal *n, const struct block *tile, enum algorithm algorithm,
                struct error *err)
{
    const struct problem *whole = n->panels->problem;
    const struct plan *plan = n->panels->plan;
    n->problem = problem_inner(whole);
    n->plan = plan_inner(whole, plan);
    n->x = (struct device_matrix){whole->type, n->x.memory, plan->ld[OPERAND_C], *tile};
    n->to = (struct sink){write_block, n, scalar_size(whole->type)};
    n->check.problem = &n->problem;
    n->check.plan = &n->plan;
    n->check.device = n->device;
    phase_begin("reading B", problem_bytes(whole, OPERAND_B));
    if (store_open(n->output, whole->type, STORE_WRITE, whole->io, &n->store, err) ||
        events_create(n->device, n->left, NORMAL_TURNS, err) ||
        check_open(&n->check, algorithm, n->check_memory, err))
        return err->code;
    return block_empty(tile) ? 0 : send_x(n, err);
}

void normal_close(struct normal *n)
{
    if (!n->check.device)
        return;
    check_close(&n->check);
    events_destroy(n->device, n->left, NORMAL_TURNS);
    store_close(n->store);
}

/* op(B) of the slab, in parts of its steps as the check compares them.  As in steps_multiply, rows
 * turn into columns. */
static int multiply(struct normal *n, const struct device_matrix *b, struct error *err)
{
    struct device *dev = n->device;
    const struct device_matrix *a = panels_factor(n->panels, OPERAND_A);
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
        if (products_begin(n->products, 0, &enqueued, err) || dev->gemm(dev, &gemm, err) ||
            dev->record(dev, enqueued->points[PRODUCT_MULTIPLIED], STREAM_COMPUTE, err) ||
            check_rows(&n->check, &product, err) ||
            dev->record(dev, enqueued->points[PRODUCT_CHECKED], STREAM_COMPUTE, err))
            return err->code;
    }
    return 0;
}

/* op(B) of the slab is judged, and leaves. */
static int leave(struct normal *n, const struct device_matrix *b, struct event *left,
                 struct error *err)
{
    struct device *dev = n->device;
    const struct block_cut cut = {.elements = (int64_t)(n->plan.slot_bytes / n->to.element)};
    const int64_t parts = block_cut_parts(&b->block, &cut);
    if (dev->record(dev, left, STREAM_COMPUTE, err) || dev->wait(dev, STREAM_OUT, left, err) ||
        check_drain(&n->check, &b->block, &b->block, err))
        return err->code;
    for (int64_t i = 0; i < parts; i++) {
        const struct block part = block_cut_part(&b->block, &cut, i);
        if (outlet_copy(n->out, b, &part, &n->to, err))
            return err->code;
    }
    return dev->record(dev, left, STREAM_OUT, err);
}

int normal_multiply(struct normal *n, int64_t slab, struct error *err)
{
    const struct slab k = schedule_slab(n->panels->problem, n->panels->plan, slab);
    struct device_matrix b = *panels_factor(n->panels, OPERAND_B);
    struct event *left = n->left[slab % NORMAL_TURNS];
    b.block = (struct block){k.first, n->x.block.col, k.size, n->x.block.cols};
    return panels_prepare(n->panels, OPERAND_A, err) ||
                   n->device->wait(n->device, STREAM_COMPUTE, left, err) ||
                   check_begin(&n->check, &b.block, err) ||
                   check_slab(&n->check, 0, n->x.memory, b.memory, err) || multiply(n, &b, err) ||
                   leave(n, &b, left, err)
               ? err->code
               : 0;
}

int normal_settle(struct normal *n, struct check *whole, struct error *err)
{
    const struct check_verdict *inner = &n->check.verdict;
    struct check_verdict *of_tile = &whole->verdict;
    if (check_judge(&n->check, err) || store_sync(n->store, err))
        return err->code;
    if (inner->failures > 0 && of_tile->failures == 0) {
        of_tile->failed[of_tile->failures++] = n->x.block;
        of_tile->failed_ratio = inner->failed_ratio;
    }
    return 0;
}
