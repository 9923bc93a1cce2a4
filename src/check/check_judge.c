/* The comparisons of the online check, and what comes of them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "check_impl.h"
#include "device.h"
#include "error.h"
#include "schedule.h"
#include "sums.h"
#include "tile_map.h"
#include "triangle.h"

double *check_host_verdicts(const struct check *c)
{
    return c->host + 2 * (c->plan->tile_cols + 1) + 1;
}

static uint64_t host_wrong(const struct check *c)
{
    uint64_t wrong;
    memcpy(&wrong, check_host_verdicts(c) - 1, sizeof wrong);
    return wrong;
}

/* Of the tile's rows from row `skip` on. */
static struct judge judge_of(const struct check *c, int64_t skip)
{
    const int64_t at = skip * c->classes;
    return (struct judge){.type = c->problem->type,
                          .exact = problem_is_exact(c->problem),
                          .rows = c->tile.rows,
                          .cols = c->tile.cols,
                          .classes = c->classes,
                          .deal = c->deal,
                          .y = c->memory.y + at,
                          .z = c->memory.z + at,
                          .before = c->memory.before + at,
                          .squares = c->memory.squares + at,
                          .odd = c->memory.odd + at,
                          .reach = c->memory.reach + at,
                          .scale = 1,
                          .weights = c->memory.weights,
                          .left_out = c->memory.left_out,
                          .found = check_found(c),
                          .tag = c->first_tag,
                          .verdicts = c->memory.verdicts[c->turn] + skip,
                          .counts = c->memory.verdicts[c->turn] + VERDICTS * c->tile.rows,
                          .stride = c->tile.rows};
}

int check_compare(struct check *c, const struct group_end *end, const void *acc, struct error *err)
{
    bool first = !c->judged_before && end->part == 0;
    const bool blocks = c->problem->blocks.steps > 0;
    const struct sketched rows = {
        end->skip, end->rows, c->memory.z, c->memory.squares, end->partial || blocks, false};
    struct judge judge = judge_of(c, end->skip);
    judge.rows = end->rows;
    judge.row_squares = problem_is_exact(c->problem) ? NULL : c->memory.row_squares + end->skip;
    judge.norms = check_norms(c, end->skip, end->part);
    judge.cols = check_columns_of(c, end->skip, end->rows);
    judge.steps = (double)end->steps;
    judge.rounded = check_roundings(c->problem, c->running, end->steps, c->slabs);
    judge.inputs = c->inputs;
    judge.roundings = freivalds_roundings(c->tile.cols, c->classes, c->plan->slab, c->slabs);
    judge.saved = c->resumed ? c->rounded : 0;
    judge.running = c->running;
    judge.peaks = c->memory.peaks ? c->memory.peaks + end->skip : NULL;
    judge.peaks_ld = c->plan->tile_rows;
    judge.from_zero = c->slab.fresh && end->part == 0;
    judge.unknown_rows = c->resumed;
    judge.begin = first;
    if (blocks)
        judge.carry =
            (struct carry){check_carried(c, end->skip), check_carried_squares(c, end->skip),
                           judge.from_zero, c->slab.ends && !end->partial, c->slab.blocks > 0};
    if (check_sketch(c, &rows, acc, err))
        return err->code;
    return c->device->judge(c->device, &judge, err);
}

/* What is compared with what sums came to: the sum of all, or those that wait. */
struct whole {
    const void *sums[FOLD_MOST];
    int count;
    bool wait;
    int64_t addends; /* that they are made of, */
    int height;      /* along a tree */
};

static int compare_whole(struct check *c, const struct block *block, const struct whole *whole,
                         struct error *err)
{
    const int64_t skip = block->row - c->tile.row;
    struct sketched rows = {skip, block->rows, c->memory.z, c->memory.squares, whole->wait, false};
    struct judge judge = judge_of(c, skip);
    judge.rows = block->rows;
    judge.cols = check_columns_of(c, skip, block->rows);
    judge.y = check_carried(c, skip);
    judge.before = check_carried_squares(c, skip);
    judge.steps = (double)whole->addends;
    judge.rounded = whole->height;
    judge.roundings = freivalds_roundings(c->tile.cols, c->classes, 0, 1) + judge.steps;
    judge.unknown_rows = c->resumed;
    judge.whole = !whole->wait;
    judge.waiting = whole->wait;
    for (int i = 0; i < whole->count; i++, rows.adds = true)
        if (check_sketch(c, &rows, whole->sums[i], err))
            return err->code;
    return c->device->judge(c->device, &judge, err);
}

/* `acc` is the sum of so many sums. */
static int compare_sum(struct check *c, const struct block *rows, const void *acc, int64_t addends,
                       int height, struct error *err)
{
    const struct whole whole = {{acc}, 1, false, addends, height};
    if (compare_whole(c, rows, &whole, err))
        return err->code;
    return c->device->record(c->device, c->summed, STREAM_COMPUTE, err);
}

int check_whole(struct check *c, const struct block *rows, const void *acc, struct error *err)
{
    const int64_t blocks = sums_blocks(c->problem);
    return c->on ? compare_sum(c, rows, acc, blocks, sums_levels(c->problem), err) : 0;
}

/* A row of the tile exceeds its limit; -1: residues are wrong, which do not say where. */
static int fail(struct check *c, const struct block *tile, int64_t row, double ratio,
                struct error *err)
{
    struct check_verdict *v = &c->verdict;
    const char *again = v->retry_on_failure ? "" : " again";
    bool known = v->failures > 0 && block_equal(&v->failed[v->failures - 1], tile);
    v->failed_ratio = fmax(v->failed_ratio, ratio);
    if (v->retry_on_failure && (known || v->failures < CHECK_AGAIN_MAX)) {
        if (!known)
            v->failed[v->failures++] = *tile;
        return 0;
    }
    if (row < 0)
        return error_add(err, EXIT_VERIFY,
                         "the product failed its check%s: residues of the tile at (%" PRId64
                         ", %" PRId64 ") are wrong; the device (%s) or its memory may be faulty",
                         again, tile->row, tile->col, c->device->info.name);
    return error_add(err, EXIT_VERIFY,
                     "the product failed its check%s: row %" PRId64 " of the tile at (%" PRId64
                     ", %" PRId64 ") differs by %.3g times the bound of rounding errors; the "
                     "device (%s) or its memory may be faulty",
                     again, tile->row + row, tile->row, tile->col, ratio, c->device->info.name);
}

/* Half of the least float. */
static const double FLOAT_LEAST = 0x1p-150;

/* As check_judge; `whole`: the sums are those of all of k. */
static int look(struct check *c, bool whole, struct error *err)
{
    const struct problem *p = c->problem;
    const int64_t width = problem_width(p);
    struct block tile = c->verdict.tile;
    struct findings found = {0};
    c->verdict.tile = (struct block){0};
    if (block_empty(&tile))
        return 0;
    if (c->device->sync(c->device, c->done, err))
        return err->code;
    const struct judged judged = {.rows = tile.rows,
                                  .cols = tile.cols,
                                  .classes = c->classes,
                                  .roundoff = p->narrows ? scalar_roundoff(problem_written(p)) : 0,
                                  .least =
                                      p->narrows ? FLOAT_LEAST / hypot(p->alpha, p->alpha_i) : 0,
                                  .mirrored = problem_mirrors(p),
                                  .strip_rows = problem_is_triangle(p) ? c->plan->strip_rows : 0,
                                  .before = tile.row * width - tile.col,
                                  .width = width};
    int64_t wrong = findings_collect(&found, check_host_verdicts(c), &judged);
    if (wrong >= 0)
        return fail(c, &tile, wrong, found.ratio, err);
    if (host_wrong(c) > 0)
        return fail(c, &tile, -1, INFINITY, err);
    c->verdict.partial = whole ? (struct findings){0} : found;
    if (!whole) /* it is multiplied again */
        return 0;
    found.rounded = 0;
    findings_merge(&c->verdict.findings, &found);
    if (c->map)
        tile_map_judge(c->map, &tile, found.rows > 0 ? found.ratio : -1, found.not_finite);
    return 0;
}

int check_judge(struct check *c, struct error *err)
{
    return look(c, true, err);
}

/* Enqueue the copy of the verdicts to the host, behind the judgements that STREAM_OUT waits for. */
static int fetch(struct check *c, const struct block *tile, struct error *err)
{
    struct device *dev = c->device;
    size_t bytes = check_verdicts(tile->rows) * sizeof(double);
    bool newest = block_equal(tile, &c->tile);
    const double *verdicts = c->memory.verdicts[newest ? c->turn : 1 - c->turn];
    struct copy copy = {check_host_verdicts(c) - 1, verdicts - 1, bytes, bytes, bytes, 1};
    c->verdict.tile = *tile;
    if (dev->copy(dev, STREAM_OUT, &copy, err))
        return err->code;
    return dev->record(dev, c->done, STREAM_OUT, err);
}

static int fetch_now(struct check *c, struct error *err)
{
    if (c->device->record(c->device, c->summed, STREAM_COMPUTE, err) ||
        c->device->wait(c->device, STREAM_OUT, c->summed, err) || fetch(c, &c->tile, err))
        return err->code;
    return look(c, false, err);
}

/* Compare the sums that wait. */
static int compare_waiting(struct check *c, struct error *err)
{
    struct whole whole = {
        .wait = true, .addends = c->slab.blocks, .height = sums_levels(c->problem)};
    for (int64_t i = 0; i < schedule_strips(c->plan, &c->tile) && c->slab.blocks > 0; i++) {
        const struct block strip = schedule_strip(c->problem, c->plan, &c->tile, i);
        whole.count = check_waiting(c, strip.row - c->tile.row, whole.sums);
        if (compare_whole(c, &strip, &whole, err))
            return err->code;
    }
    return 0;
}

int check_now(struct check *c, const void *acc, struct error *err)
{
    if (!c->on || c->slab.index < 0)
        return 0;
    if (check_judge(c, err))
        return err->code;
    for (int64_t i = 0; i < schedule_strips(c->plan, &c->tile) && !c->slab.compares; i++) {
        struct block strip = schedule_strip(c->problem, c->plan, &c->tile, i);
        int64_t skip = strip.row - c->tile.row;
        const struct group_end end = {skip, strip.rows, 0, c->steps, false};
        if (check_compare(c, &end, check_row_of(c, acc, skip), err))
            return err->code;
    }
    c->slab.compares = true; /* this is the end of a group */
    if (c->slab.ends && c->problem->blocks.steps > 0)
        c->slab.blocks++; /* its sum waits */
    if (compare_waiting(c, err))
        return err->code;
    return fetch_now(c, err);
}

int check_fetch(struct check *c, struct error *err)
{
    return c->on ? fetch_now(c, err) : 0;
}

int check_layers(struct check *c, int layers, const void *acc, struct error *err)
{
    struct device *dev = c->device;
    int height = 0;
    if (!c->on)
        return 0;
    while (1 << height < layers)
        height++;
    if (check_send(c, c->memory.verdicts[c->turn], check_host_verdicts(c),
                   (size_t)(VERDICTS * c->tile.rows) * sizeof(double), err) ||
        dev->record(dev, c->ready, STREAM_IN, err) || dev->wait(dev, STREAM_COMPUTE, c->ready, err))
        return err->code;
    for (int64_t i = 0; i < schedule_strips(c->plan, &c->tile) && !err->code; i++) {
        const struct block strip = schedule_strip(c->problem, c->plan, &c->tile, i);
        const void *rows = check_row_of(c, acc, strip.row - c->tile.row);
        compare_sum(c, &strip, rows, layers, height, err);
    }
    return err->code;
}

int check_drain(struct check *c, const struct block *tile, const struct block *rows,
                struct error *err)
{
    bool first = rows->row == tile->row, last = rows->row + rows->rows == tile->row + tile->rows;
    if (!c->on || (first && check_judge(c, err)))
        return err->code;
    if (!last)
        return 0;
    if (fetch(c, tile, err) || c->plan->tiles > 1) /* check_begin waits before they are reused */
        return err->code;
    return c->device->wait(c->device, STREAM_COMPUTE, c->done, err);
}
