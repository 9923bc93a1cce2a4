#include "check.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "device.h"
#include "error.h"
#include "mix.h"
#include "schedule.h"
#include "tiles.h"

static size_t vector_bytes(int64_t count)
{
    return (size_t)count * sizeof(double);
}

double check_sign(int64_t col)
{
    return (mix_number(0, (uint64_t)col) >> 63) ? 1 : -1;
}

double check_roundoff(enum scalar type)
{
    return type == SCALAR_DOUBLE ? DBL_EPSILON / 2 : FLT_EPSILON / 2;
}

double check_limit(const struct problem *p)
{
    double k = (double)p->k_whole, n = (double)p->n;
    double ratio = check_roundoff(SCALAR_DOUBLE) / check_roundoff(p->type);
    return problem_reads_ab(p) ? 1.01 * (k + (2 * n + k) * ratio) : 0;
}

int check_open(struct check *c, const struct problem *p, const struct plan *plan,
               struct device *device, void *memory, struct error *err)
{
    *c = (struct check){.problem = p,
                        .plan = plan,
                        .device = device,
                        .on = memory != NULL && plan->slabs > 0,
                        .limit = check_limit(p)};
    if (!c->on)
        return 0;
    c->x = memory;
    c->t = c->x + plan->tile_cols;
    c->rows = c->t + 2 * plan->slab;
    size_t bytes = vector_bytes(plan->tile_cols + 3 * plan->tile_rows);
    void *host = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!host)
        return error_add(err, EXIT_RESOURCES, "cannot allocate %zu bytes of host memory", bytes);
    if (device->pin(device, host, bytes, err)) {
        free(host);
        return err->code;
    }
    c->host = host;
    if (device->event_create(device, &c->ready, err) ||
        device->event_create(device, &c->summed, err) ||
        device->event_create(device, &c->done, err))
        return err->code;
    return 0;
}

void check_close(struct check *c)
{
    struct device *dev = c->device;
    struct event *events[] = {c->ready, c->summed, c->done};
    for (int i = 0; i < 3; i++)
        if (events[i])
            dev->event_destroy(dev, events[i]);
    if (c->host)
        dev->unpin(dev, c->host);
    free(c->host);
    *c = (struct check){0};
}

int check_begin(struct check *c, const struct block *tile, struct error *err)
{
    struct device *dev = c->device;
    if (!c->on)
        return 0;
    c->tile = *tile;
    if (dev->sync(dev, c->ready, err) || dev->wait(dev, STREAM_IN, c->summed, err))
        return err->code;
    for (int64_t j = 0; j < tile->cols; j++)
        c->host[j] = check_sign(tile->col + j);
    size_t bytes = vector_bytes(tile->cols);
    struct copy copy = {c->x, c->host, bytes, bytes, bytes, 1};
    if (dev->copy(dev, STREAM_IN, &copy, err) || dev->record(dev, c->ready, STREAM_IN, err) ||
        dev->wait(dev, STREAM_COMPUTE, c->ready, err))
        return err->code;
    return 0;
}

int check_slab(struct check *c, int64_t slab, const void *panel_a, const void *panel_b,
               struct error *err)
{
    struct device *dev = c->device;
    if (!c->on)
        return 0;
    const struct problem *p = c->problem;
    const struct plan *plan = c->plan;
    struct block a = schedule_panel(p, plan, OPERAND_A, &c->tile, slab);
    struct block b = schedule_panel(p, plan, OPERAND_B, &c->tile, slab);
    bool grows = slab > 0 || p->continues;
    double *t_abs = c->t + plan->slab, *y = c->rows, *y_abs = c->rows + plan->tile_rows;
    struct project inner = {p->type, p->trans[1],         false, b.rows, b.cols,
                            panel_b, plan->ld[OPERAND_B], c->x,  NULL,   c->t,
                            t_abs};
    struct project outer = {p->type, p->trans[0],         grows, a.rows, a.cols,
                            panel_a, plan->ld[OPERAND_A], c->t,  t_abs,  y,
                            y_abs};
    if (dev->project(dev, &inner, err) || dev->project(dev, &outer, err))
        return err->code;
    return slab + 1 == plan->slabs ? dev->record(dev, c->summed, STREAM_COMPUTE, err) : 0;
}

int check_rows(struct check *c, const struct block *rows, const void *acc, struct error *err)
{
    struct device *dev = c->device;
    if (!c->on)
        return 0;
    int64_t skip = rows->row - c->tile.row;
    struct project product = {c->problem->type,
                              false,
                              false,
                              rows->rows,
                              rows->cols,
                              acc,
                              c->plan->ld[OPERAND_C],
                              c->x,
                              NULL,
                              c->rows + 2 * c->plan->tile_rows + skip,
                              NULL};
    return dev->project(dev, &product, err);
}

int check_resume(struct check *c, const void *acc, struct error *err)
{
    if (!c->on)
        return 0;
    double *y = c->rows, *y_abs = c->rows + c->plan->tile_rows;
    struct project saved = {c->problem->type,
                            false,
                            false,
                            c->tile.rows,
                            c->tile.cols,
                            acc,
                            c->plan->ld[OPERAND_C],
                            c->x,
                            NULL,
                            y,
                            y_abs};
    return c->device->project(c->device, &saved, err);
}

/* A row of the tile is beyond the limit. */
static int fail(struct check *c, const struct block *tile, int64_t row, double residual,
                struct error *err)
{
    bool known = c->failures > 0 && block_equal(&c->failed[c->failures - 1], tile);
    c->failed_residual = fmax(c->failed_residual, residual);
    if (c->patient && (known || c->failures < CHECK_AGAIN_MAX)) {
        if (!known)
            c->failed[c->failures++] = *tile;
        return 0;
    }
    return error_add(err, EXIT_VERIFY,
                     "the product failed its check%s: row %" PRId64 " of the tile at (%" PRId64
                     ", %" PRId64 ") has residual %.3g, limit %.3g; the device (%s) or its "
                     "memory may be faulty",
                     c->patient ? "" : " again", tile->row + row, tile->row, tile->col, residual,
                     c->limit, c->device->info.name);
}

/* As check_judge; `whole`: the sums are those of all of k, not of a part. */
static int judge(struct check *c, bool whole, struct error *err)
{
    struct block tile = c->judged;
    c->judged = (struct block){0};
    if (block_empty(&tile))
        return 0;
    if (c->device->sync(c->device, c->done, err))
        return err->code;
    bool is_double = c->problem->type == SCALAR_DOUBLE;
    double u = check_roundoff(c->problem->type), largest = is_double ? DBL_MAX : FLT_MAX;
    double underflow = (double)tile.cols * (is_double ? 0x1p-1074 : 0x1p-149);
    const double *y = c->host + c->plan->tile_cols;
    const double *y_abs = y + c->plan->tile_rows, *z = y_abs + c->plan->tile_rows;
    double worst = -1; /* no row could be judged */
    int64_t not_finite = 0;
    for (int64_t i = 0; i < tile.rows; i++) {
        if (!(y_abs[i] <= largest)) {
            not_finite++;
            continue;
        }
        double residual = fabs(z[i] - y[i]) / (u * y_abs[i] + underflow);
        if (!(residual <= c->limit))
            return fail(c, &tile, i, residual, err);
        worst = fmax(worst, residual);
    }
    c->residual = fmax(c->residual, worst);
    if (whole)
        c->not_finite += not_finite;
    if (whole && c->tiles)
        tiles_judge(c->tiles, &tile, worst, not_finite);
    return 0;
}

int check_judge(struct check *c, struct error *err)
{
    return judge(c, true, err);
}

int check_now(struct check *c, const void *acc, struct error *err)
{
    struct device *dev = c->device;
    double *host = c->host + c->plan->tile_cols;
    size_t pitch = vector_bytes(c->plan->tile_rows);
    struct copy sums = {host, c->rows, pitch, pitch, vector_bytes(c->tile.rows), CHECK_SUMS + 1};
    if (!c->on)
        return 0;
    if (check_judge(c, err) || check_rows(c, &c->tile, acc, err) ||
        dev->record(dev, c->summed, STREAM_COMPUTE, err) ||
        dev->wait(dev, STREAM_OUT, c->summed, err) || dev->copy(dev, STREAM_OUT, &sums, err) ||
        dev->record(dev, c->done, STREAM_OUT, err))
        return err->code;
    c->judged = c->tile;
    return judge(c, false, err);
}

int check_leave(struct check *c, const struct block *tile, const struct block *rows,
                struct error *err)
{
    struct device *dev = c->device;
    size_t stride = (size_t)c->plan->tile_rows, skip = (size_t)(rows->row - tile->row);
    double *host = c->host + c->plan->tile_cols;
    if (!c->on)
        return 0;
    if (skip == 0 && check_judge(c, err))
        return err->code;
    size_t bytes = vector_bytes(rows->rows), pitch = stride * sizeof *host;
    struct copy acc_x = {
        host + 2 * stride + skip, c->rows + 2 * stride + skip, bytes, bytes, bytes, 1};
    if (dev->copy(dev, STREAM_OUT, &acc_x, err))
        return err->code;
    if (rows->row + rows->rows < tile->row + tile->rows)
        return 0;
    c->judged = *tile;
    struct copy sums = {host, c->rows, pitch, pitch, vector_bytes(tile->rows), 2};
    if (dev->wait(dev, STREAM_OUT, c->summed, err) || dev->copy(dev, STREAM_OUT, &sums, err) ||
        dev->record(dev, c->done, STREAM_OUT, err) || dev->wait(dev, STREAM_COMPUTE, c->done, err))
        return err->code;
    return 0;
}
