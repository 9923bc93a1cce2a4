#include "check_impl.h"

#include <string.h>

#include "device.h"
#include "error.h"
#include "quantity.h"
#include "schedule.h"
#include "triangle.h"

unsigned long long *check_wrong(const struct check *c)
{
    return c->on ? (unsigned long long *)c->memory.verdicts[c->turn] - 1 : NULL;
}

int check_send(struct check *c, void *to, const void *from, size_t bytes, struct error *err)
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
    c->steps = c->slabs = c->slab.blocks = 0;
    c->slab.index = -1;
    c->judged_before = c->expects = c->resumed = c->slab.compares = false;
    c->first_tag = c->tag + 1;
    if (dev->sync(dev, c->ready, err) || dev->wait(dev, STREAM_IN, c->summed, err) ||
        dev->wait(dev, STREAM_IN, c->done, err))
        return err->code;
    check_set_weights(c);
    if (check_send(c, c->memory.weights, c->host, (size_t)tile->cols * sizeof(double), err) ||
        check_send(c, c->memory.left_out, c->host + cols, (cols + 1) * sizeof(int), err) ||
        check_send(c, check_wrong(c), c->host + cols, sizeof *check_wrong(c), err) ||
        dev->record(dev, c->ready, STREAM_IN, err) || dev->wait(dev, STREAM_COMPUTE, c->ready, err))
        return err->code;
    return 0;
}

int64_t check_columns_of(const struct check *c, int64_t skip, int64_t rows)
{
    return problem_is_triangle(c->problem)
               ? triangle_columns(c->problem, &c->tile, c->tile.row + skip + rows - 1)
               : c->tile.cols;
}

int check_waiting(const struct check *c, int64_t skip, const void *sums[FOLD_MOST])
{
    int count = 0;
    for (int level = 0; c->slab.blocks >> level > 0; level++)
        if (c->slab.blocks >> level & 1)
            sums[count++] = check_row_of(c, c->memory.waiting[level], skip);
    return count;
}

int check_sketch(struct check *c, const struct sketched *s, const void *acc, struct error *err)
{
    int64_t at = s->skip * c->classes;
    struct sketch sketch = {.type = c->problem->sums,
                            .exact = problem_is_exact(c->problem),
                            .rows = s->rows,
                            .cols = check_columns_of(c, s->skip, s->rows),
                            .accumulate = s->adds,
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
                            .found = check_found(c)};
    return c->device->sketch(c->device, &sketch, err);
}

/* Of a strip: what its sums begin with. */
static int resume_strip(struct check *c, const struct block *strip, const void *acc,
                        struct error *err)
{
    const struct check_memory *m = &c->memory;
    const int64_t skip = strip->row - c->tile.row;
    struct sketched rows = {skip, strip->rows, m->y, m->before, false, false};
    const void *waiting[FOLD_MOST];
    const int count = check_waiting(c, skip, waiting);
    if (c->expects && check_sketch(c, &rows, check_row_of(c, acc, skip), err))
        return err->code;
    rows.sums = m->carried;
    rows.squares = m->carried_squares;
    for (int i = 0; i < count && !err->code; i++, rows.adds = true)
        check_sketch(c, &rows, waiting[i], err);
    return err->code;
}

int check_resume(struct check *c, const void *acc, struct error *err)
{
    const struct slab first = schedule_slab(c->problem, c->plan, 0);
    if (!c->on)
        return 0;
    c->resumed = true;
    c->expects = !first.begins;
    c->slab.blocks = first.block;
    for (int64_t i = 0; i < schedule_strips(c->plan, &c->tile) && !err->code; i++) {
        const struct block strip = schedule_strip(c->problem, c->plan, &c->tile, i);
        resume_strip(c, &strip, acc, err);
    }
    return err->code;
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

double *check_norms(const struct check *c, int64_t skip, int64_t part)
{
    int64_t pass = 0;
    if (problem_is_triangle(c->problem)) {
        int64_t end = (c->tile.col + c->tile.cols) / problem_width(c->problem);
        int64_t last = max_i64(0, ceil_div(end - c->tile.row, c->plan->strip_rows) - 1);
        pass = min_i64(skip / c->plan->strip_rows, last);
    }
    return c->memory.norms + (pass * (int64_t)check_parts(c->plan->slab) + part) * c->classes;
}

struct retire check_retired(const struct check *c, int64_t skip, int64_t cols)
{
    return (struct retire){.type = c->problem->type,
                           .rows = c->tile.rows - skip,
                           .cols = cols,
                           .carried = check_carried(c, skip),
                           .ld = c->plan->ld[OPERAND_C],
                           .classes = c->classes,
                           .deal = c->deal,
                           .weights = c->memory.weights,
                           .left_out = c->memory.left_out,
                           .y = c->memory.y + skip * c->classes,
                           .found = check_found(c),
                           .tag = c->tag};
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
                            .found = check_found(c),
                            .tag = ++c->tag};
    struct retire retire = check_retired(c, skip, end);
    if (c->expects)
        retire.acc = check_row_of(c, c->slab.acc, skip);
    retire.count = check_waiting(c, skip, retire.waiting);
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
    int64_t skip = rows->row - c->tile.row, end = check_columns_of(c, skip, rows->rows);
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
                              check_norms(c, skip, first / part),
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
    const struct slab k = schedule_slab(c->problem, c->plan, slab);
    c->expects = !k.begins && (c->expects || c->slab.index >= 0);
    c->slab.blocks = k.block;
    c->slab.index = slab;
    c->slab.panel_b = panel_b;
    c->slab.acc = acc;
    c->slab.passed = 0;
    c->slab.begins = c->steps == 0;
    if (c->slab.begins)
        c->slab.fresh = k.begins;
    c->slab.ends = k.ends;
    c->slab.steps = k.size;
    c->steps += c->slab.steps;
    c->slabs++;
    bool full = c->steps + c->slab.steps / 2 >= c->group_steps; /* nearer than with one more */
    c->slab.compares = full || k.ends;
    return problem_is_triangle(c->problem) ? 0 : check_columns(c, &c->tile, err);
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
    if (c->slab.compares && check_compare(c, &end, product->acc, err))
        return err->code;
    return c->slab.compares ? dev->record(dev, c->summed, STREAM_COMPUTE, err) : 0;
}
