#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "error.h"
#include "quantity.h"
#include "schedule.h"
#include "tile_map.h"
#include "triangle.h"

/* The last word of left_out. */
static int *found_of(const struct check *c)
{
    return c->memory.left_out + c->plan->tile_cols;
}

static double *host_verdicts(const struct check *c)
{
    return c->host + 2 * (c->plan->tile_cols + 1) + 1;
}

static uint64_t host_wrong(const struct check *c)
{
    uint64_t wrong;
    memcpy(&wrong, host_verdicts(c) - 1, sizeof wrong);
    return wrong;
}

unsigned long long *check_wrong(const struct check *c)
{
    return c->on ? (unsigned long long *)c->memory.verdicts[c->turn] - 1 : NULL;
}

/* Host to device, ahead of all work that is enqueued on the compute stream from now on. */
static int send(struct check *c, void *to, const void *from, size_t bytes, struct error *err)
{
    struct copy copy = {to, from, bytes, bytes, bytes, 1};
    return c->device->copy(c->device, STREAM_IN, &copy, err);
}

int check_begin(struct check *c, const struct block *tile, struct error *err)
{
    struct device *dev = c->device;
    size_t cols = (size_t)c->plan->tile_cols;
    if (!c->on)
        return 0;
    c->tile = *tile;
    c->turn = 1 - c->turn;
    c->steps = c->slabs = 0;
    c->slab.index = -1;
    c->judged_before = c->expects = c->resumed = c->slab.compares = false;
    c->first_tag = c->tag + 1;
    if (dev->sync(dev, c->ready, err) || dev->wait(dev, STREAM_IN, c->summed, err) ||
        dev->wait(dev, STREAM_IN, c->done, err))
        return err->code;
    check_set_weights(c);
    if (send(c, c->memory.weights, c->host, (size_t)tile->cols * sizeof(double), err) ||
        send(c, c->memory.left_out, c->host + cols, (cols + 1) * sizeof(int), err) ||
        send(c, check_wrong(c), c->host + cols, sizeof *check_wrong(c), err) ||
        dev->record(dev, c->ready, STREAM_IN, err) || dev->wait(dev, STREAM_COMPUTE, c->ready, err))
        return err->code;
    return 0;
}

/* Columns of the tile that are multiplied for some of its rows. */
static int64_t columns_of(const struct check *c, int64_t skip, int64_t rows)
{
    return problem_is_triangle(c->problem)
               ? triangle_columns(c->problem, &c->tile, c->tile.row + skip + rows - 1)
               : c->tile.cols;
}

/* The tile's row `skip` of the accumulators. */
static const void *row_of(const struct check *c, const void *acc, int64_t skip)
{
    return (const char *)acc +
           (size_t)(skip * c->plan->ld[OPERAND_C]) * scalar_size(c->problem->type);
}

/* Some rows of the tile, from row `skip` on, and where their sketch goes. */
struct sketched {
    int64_t skip, rows;
    double *sums, *squares;
    bool partial;
};

static int sketch_rows(struct check *c, const struct sketched *s, const void *acc,
                       struct error *err)
{
    int64_t at = s->skip * c->classes;
    struct sketch sketch = {.type = c->problem->sums,
                            .exact = problem_is_exact(c->problem),
                            .rows = s->rows,
                            .cols = columns_of(c, s->skip, s->rows),
                            .matrix = acc,
                            .ld = c->plan->ld[OPERAND_C],
                            .classes = c->classes,
                            .deal = c->deal,
                            .weights = c->memory.weights,
                            .left_out = c->memory.left_out,
                            .sums = s->sums + at,
                            .squares = s->squares + at,
                            .odd = c->memory.odd + at,
                            .partial = s->partial,
                            .found = found_of(c)};
    return c->device->sketch(c->device, &sketch, err);
}

int check_resume(struct check *c, const void *acc, struct error *err)
{
    if (!c->on)
        return 0;
    c->expects = c->resumed = true;
    for (int64_t i = 0; i < schedule_strips(c->plan, &c->tile); i++) {
        const struct block strip = schedule_strip(c->problem, c->plan, &c->tile, i);
        const struct sketched rows = {strip.row - c->tile.row, strip.rows, c->memory.y,
                                      c->memory.before, false};
        if (sketch_rows(c, &rows, row_of(c, acc, rows.skip), err))
            return err->code;
    }
    return 0;
}

int64_t check_part(const struct check *c, int64_t k)
{
    return c->on ? min_i64(c->group_steps, k) : k;
}

struct peaks check_peaks(const struct check *c, const struct block *rows, int64_t first)
{
    struct peaks peaks = {0};
    if (!c->on || !c->memory.peaks)
        return peaks;
    peaks.norms = c->memory.peaks + (rows->row - c->tile.row);
    peaks.ld = c->plan->tile_rows;
    peaks.grow = !c->slab.begins && first == 0;
    return peaks;
}

/* Of one pass over the slab's columns: that of the strip that begins with row `skip` or, where that
 * strip and those above it have all columns, of the first of them that has. */
static double *norms_of(const struct check *c, int64_t skip, int64_t part)
{
    int64_t pass = 0;
    if (problem_is_triangle(c->problem)) {
        int64_t end = (c->tile.col + c->tile.cols) / problem_width(c->problem);
        int64_t last = max_i64(0, ceil_div(end - c->tile.row, c->plan->strip_rows) - 1);
        pass = min_i64(skip / c->plan->strip_rows, last);
    }
    return c->memory.norms + (pass * (int64_t)check_parts(c->plan->slab) + part) * c->classes;
}

/* Add the columns from `first` to `end` to t = op(B) x, but for those that are to be left out
 * because of this slab.  The rows from `skip` on are still to be multiplied by them. */
static int sketch_columns(struct check *c, int64_t skip, int64_t first, int64_t end,
                          struct error *err)
{
    struct device *dev = c->device;
    struct block b = schedule_factor(c->problem, c->plan, OPERAND_B, &c->tile, c->slab.index);
    bool trans = c->problem->trans[OPERAND_B];
    int64_t at = first * (trans ? c->plan->ld[OPERAND_B] : 1);
    const enum scalar type = problem_factor(c->problem, OPERAND_B);
    struct sketch sketch = {.type = type,
                            .exact = problem_is_exact(c->problem),
                            .trans = trans,
                            .accumulate = first > 0,
                            .rows = trans ? end - first : b.rows,
                            .cols = trans ? b.cols : end - first,
                            .matrix =
                                (const char *)c->slab.panel_b + (size_t)at * scalar_size(type),
                            .ld = c->plan->ld[OPERAND_B],
                            .classes = c->classes,
                            .deal = c->deal,
                            .first = first,
                            .weights = c->memory.weights + first,
                            .left_out = c->memory.left_out + first,
                            .sums = c->memory.t,
                            .squares = c->memory.t_squares,
                            .found = found_of(c),
                            .tag = ++c->tag};
    struct retire retire = {.type = c->problem->type,
                            .rows = c->tile.rows - skip,
                            .cols = end,
                            .acc = c->expects ? row_of(c, c->slab.acc, skip) : NULL,
                            .ld = c->plan->ld[OPERAND_C],
                            .classes = c->classes,
                            .deal = c->deal,
                            .weights = c->memory.weights,
                            .left_out = c->memory.left_out,
                            .y = c->memory.y + skip * c->classes,
                            .found = found_of(c),
                            .tag = c->tag};
    if (dev->sketch(dev, &sketch, err) || sketch.exact || dev->retire(dev, &retire, err))
        return err->code;
    sketch.only_found = true; /* once more, from the first column on */
    sketch.accumulate = false;
    sketch.first = 0;
    sketch.matrix = c->slab.panel_b;
    sketch.weights = c->memory.weights;
    sketch.left_out = c->memory.left_out;
    *(trans ? &sketch.rows : &sketch.cols) = end;
    return dev->sketch(dev, &sketch, err);
}

int check_columns(struct check *c, const struct block *rows, struct error *err)
{
    struct device *dev = c->device;
    int64_t skip = rows->row - c->tile.row, end = columns_of(c, skip, rows->rows);
    if (!c->on || end <= c->slab.passed)
        return 0;
    struct block b = schedule_factor(c->problem, c->plan, OPERAND_B, &c->tile, c->slab.index);
    int64_t k = c->problem->trans[OPERAND_B] ? b.cols : b.rows, part = check_part(c, k);
    if (sketch_columns(c, skip, c->slab.passed, end, err))
        return err->code;
    for (int64_t first = 0; first < k && !problem_is_exact(c->problem); first += part) {
        const int64_t at = first * c->classes;
        struct norms norms = {min_i64(part, k - first),
                              c->classes,
                              (double)freivalds_width(end, c->deal, c->classes),
                              c->memory.t_squares + at,
                              norms_of(c, skip, first / part),
                              c->memory.t_roots + at,
                              first > 0 || c->slab.begins};
        if (dev->norms(dev, &norms, err))
            return err->code;
    }
    c->slab.passed = end;
    return 0;
}

int check_slab(struct check *c, int64_t slab, const void *panel_b, const void *acc,
               struct error *err)
{
    if (!c->on)
        return 0;
    if (c->slab.compares) { /* the slab before ended a group */
        c->steps = c->slabs = 0;
        c->judged_before = true;
    }
    c->expects |= c->slab.index >= 0;
    c->slab.index = slab;
    c->slab.panel_b = panel_b;
    c->slab.acc = acc;
    c->slab.passed = 0;
    c->slab.begins = c->steps == 0;
    struct block b = schedule_factor(c->problem, c->plan, OPERAND_B, &c->tile, slab);
    c->slab.steps = c->problem->trans[OPERAND_B] ? b.cols : b.rows;
    c->steps += c->slab.steps;
    c->slabs++;
    bool full = c->steps + c->slab.steps / 2 >= c->group_steps; /* nearer than with one more */
    c->slab.compares = full || slab + 1 == c->plan->slabs;
    return problem_is_triangle(c->problem) ? 0 : check_columns(c, &c->tile, err);
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
                          .found = found_of(c),
                          .tag = c->first_tag,
                          .verdicts = c->memory.verdicts[c->turn] + skip,
                          .counts = c->memory.verdicts[c->turn] + VERDICTS * c->tile.rows,
                          .stride = c->tile.rows};
}

/* Compare some rows at the end of a group, which is number `part` of the slab. */
struct group_end {
    int64_t skip, rows, part, steps;
    bool partial; /* other groups of the slab follow */
};

/* Compare y with z, the sketch of the accumulators as they are. */
static int judge_rows(struct check *c, const struct group_end *end, const void *acc,
                      struct error *err)
{
    bool first = !c->judged_before && end->part == 0;
    const struct sketched rows = {end->skip, end->rows, c->memory.z, c->memory.squares,
                                  end->partial};
    struct judge judge = judge_of(c, end->skip);
    judge.rows = end->rows;
    judge.row_squares = problem_is_exact(c->problem) ? NULL : c->memory.row_squares + end->skip;
    judge.norms = norms_of(c, end->skip, end->part);
    judge.cols = columns_of(c, end->skip, end->rows);
    judge.steps = (double)end->steps;
    judge.rounded = check_roundings(c->problem, c->running, end->steps, c->slabs);
    judge.inputs = c->inputs;
    judge.roundings = freivalds_roundings(c->tile.cols, c->classes, c->plan->slab, c->slabs);
    judge.saved = c->resumed ? c->rounded : 0;
    judge.running = c->running;
    judge.peaks = c->memory.peaks ? c->memory.peaks + end->skip : NULL;
    judge.peaks_ld = c->plan->tile_rows;
    judge.from_zero = first && !c->resumed;
    judge.unknown_rows = c->resumed;
    judge.begin = first;
    if (sketch_rows(c, &rows, acc, err))
        return err->code;
    return c->device->judge(c->device, &judge, err);
}

int check_rows(struct check *c, const struct check_product *product, struct error *err)
{
    struct device *dev = c->device;
    if (!c->on)
        return 0;
    bool trans = c->problem->trans[OPERAND_A], exact = problem_is_exact(c->problem);
    int64_t skip = product->rows.row - c->tile.row, rows = product->rows.rows, k = product->k;
    struct project project = {.type = problem_factor(c->problem, OPERAND_A),
                              .exact = exact,
                              .trans = trans,
                              .begin = c->slab.begins || product->first > 0,
                              .from_zero = !c->expects && product->first == 0,
                              .rows = trans ? k : rows,
                              .cols = trans ? rows : k,
                              .matrix = product->a,
                              .ld = c->plan->ld[OPERAND_A],
                              .classes = c->classes,
                              .x = c->memory.t + product->first * c->classes,
                              .y = c->memory.y + skip * c->classes,
                              .squares = c->memory.row_squares + skip,
                              .partial = c->memory.parts};
    struct project reach = project;
    reach.absolute = true;
    reach.from_zero = project.begin;
    reach.x = c->memory.t_roots + product->first * c->classes;
    reach.y = c->memory.reach + skip * c->classes;
    reach.squares = NULL;
    if (dev->project(dev, &project, err) || (!exact && dev->project(dev, &reach, err)))
        return err->code;
    bool split = check_part(c, c->plan->slab) < c->plan->slab; /* each part is a group */
    struct group_end end = {skip, rows, split ? product->first / c->group_steps : 0,
                            split ? k : c->steps, product->first + k < c->slab.steps};
    if (c->slab.compares && judge_rows(c, &end, product->acc, err))
        return err->code;
    return c->slab.compares ? dev->record(dev, c->summed, STREAM_COMPUTE, err) : 0;
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
                                  .mirrored = problem_mirrors(p),
                                  .strip_rows = problem_is_triangle(p) ? c->plan->strip_rows : 0,
                                  .before = tile.row * width - tile.col,
                                  .width = width};
    int64_t wrong = findings_collect(&found, host_verdicts(c), &judged);
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
    struct copy copy = {host_verdicts(c) - 1, verdicts - 1, bytes, bytes, bytes, 1};
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
        if (judge_rows(c, &end, row_of(c, acc, skip), err))
            return err->code;
    }
    c->slab.compares = true; /* this is the end of a group */
    return fetch_now(c, err);
}

double *check_sizes(const struct check *c)
{
    return c->memory.verdicts[c->turn] + VERDICT_SIZE * c->tile.rows;
}

bool check_left_out(const struct check *c)
{
    const double *counts = c->on ? host_verdicts(c) + VERDICTS * c->tile.rows : NULL;
    return counts && counts[0] + counts[1] > 0;
}

int check_layers(struct check *c, int layers, bool left_out, const void *acc, struct error *err)
{
    if (!c->on)
        return 0;
    if (left_out) {
        c->verdict.findings.not_judged += (double)(c->tile.rows * c->tile.cols);
        c->on = false;
        return 0;
    }
    const struct sketched all = {0, c->tile.rows, c->memory.z, c->memory.squares, false};
    struct judge judge = judge_of(c, 0);
    judge.steps = judge.rounded = layers;
    judge.roundings = freivalds_roundings(c->tile.cols, c->classes, 0, layers);
    judge.unknown_rows = true;
    if (sketch_rows(c, &all, acc, err) || c->device->judge(c->device, &judge, err))
        return err->code;
    return c->device->record(c->device, c->summed, STREAM_COMPUTE, err);
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
