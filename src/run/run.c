/* The pipeline of one rank.  Start reading at run_execute, then all_tiles, tile_multiply and
 * slab_multiply; drain.c has the way of a finished tile. */
#include "run.h"

#include "error.h"
#include "layers.h"
#include "phase.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "save.h"
#include "sums.h"
#include "triangle.h"

/* The tile's strips follow each other down its rows, so that all but the first find the columns of
 * op(B) in the workspace, which are op(A) in column-major order; in a triangle those that they
 * have. */
static int multiply(struct run *run, const struct gemm *gemm, const struct block *rows,
                    struct error *err)
{
    const struct problem *p = run->problem;
    const struct block *tile = &run->acc.block;
    const bool follows = rows->row > tile->row;
    const bool same = follows && !problem_is_triangle(p);
    const int64_t columns =
        problem_is_triangle(p) ? triangle_columns(p, tile, rows->row - 1) : tile->cols;
    const struct integers integers = {.a = p->held[OPERAND_B],
                                      .b = p->held[OPERAND_A],
                                      .workspace = run->workspace,
                                      .bytes = run->plan->residues_bytes,
                                      .cols = run->plan->tile_rows,
                                      .held = follows ? columns : 0,
                                      .leaves_room = gemm->leaves_room};
    const struct ozaki ozaki = {.residues = &run->residues,
                                .workspace = run->workspace,
                                .bytes = run->plan->residues_bytes,
                                .cols = run->plan->tile_rows,
                                .same_a = same,
                                .leaves_room = gemm->leaves_room,
                                .wrong = check_wrong(&run->check),
                                .seed = run->check.seed};
    if (problem_of_bytes(p))
        return run->device->integers(run->device, gemm, &integers, err);
    return run->workspace ? run->device->ozaki(run->device, gemm, &ozaki, err)
                          : run->device->gemm(run->device, gemm, err);
}

/* Whether the slab is the last one of its tile. */
static bool is_last(const struct run *run, const struct slab *slab)
{
    return slab->first + slab->size == run->problem->k_first + run->problem->k;
}

/* Whether the last columns of some rows of a triangle are a whole square on the diagonal.  In a
 * complex product they are not symmetric. */
static bool ends_in_square(const struct problem *p, const struct block *rows)
{
    return problem_is_triangle(p) && problem_width(p) == 1 &&
           rows->row + rows->rows == rows->col + rows->cols && rows->cols >= rows->rows;
}

/* acc (+)= op(A) op(B) for `rows` of the tile and a part of the slab's steps from `first` on, of
 * the current panels.  Row-major C = op(A) op(B) is column-major C' = op(B)' op(A)': here, and
 * nowhere else, rows turn into the columns of BLAS. */
static int steps_multiply(struct run *run, const struct block *rows, const struct slab *slab,
                          int64_t first, struct error *err)
{
    const struct problem *p = run->problem;
    const struct device_matrix *a = panels_factor(&run->panels, OPERAND_A);
    const struct device_matrix *b = panels_factor(&run->panels, OPERAND_B);
    struct device *dev = run->device;
    const int64_t k = min_i64(check_part(&run->check, slab->size), slab->size - first);
    int64_t skip = rows->row - run->acc.block.row;
    struct gemm gemm = {
        .type = p->type,
        .trans_a = p->trans[1],
        .trans_b = p->trans[0],
        .m = rows->cols,
        .n = rows->rows,
        .k = k,
        .alpha = 1,
        .a = device_matrix_at(b, p->trans[1] ? 0 : first, p->trans[1] ? first : 0),
        .lda = b->ld,
        .b = device_matrix_at(a, p->trans[0] ? first : skip, p->trans[0] ? skip : first),
        .ldb = a->ld,
        .beta = !slab->begins || first > 0,
        .c = device_matrix_at(&run->acc, skip, 0),
        .ldc = run->acc.ld,
        .mirrored = ends_in_square(p, rows),
        .peaks = check_peaks(&run->check, rows, first),
        .leaves_room = drain_computes(&run->drain) &&
                       (!block_empty(&run->drain.tile.block) || is_last(run, slab)),
    };
    struct check_product product = {*rows, first, k, gemm.b, gemm.c};
    double flops = 2 * schedule_products(p, rows) * (double)k;
    struct enqueued_product *enqueued;
    if (products_begin(&run->products, flops, &enqueued, err) || multiply(run, &gemm, rows, err) ||
        dev->record(dev, enqueued->points[PRODUCT_MULTIPLIED], STREAM_COMPUTE, err) ||
        check_rows(&run->check, &product, err))
        return err->code;
    return dev->record(dev, enqueued->points[PRODUCT_CHECKED], STREAM_COMPUTE, err);
}

/* These rows of a block of k are complete: add the sums that waited for it, and let it wait, or, if
 * it is the last one, keep it. */
static int carry(struct run *run, const struct block *rows, const struct slab *slab,
                 struct error *err)
{
    const struct problem *p = run->problem;
    const struct carrying c = sums_carry(slab->block, sums_blocks(p));
    const int64_t skip = rows->row - run->acc.block.row;
    struct device_matrix sums = run->acc;
    struct fold fold = {.type = p->sums,
                        .rows = rows->rows,
                        .cols = rows->cols,
                        .acc = device_matrix_at(&run->acc, skip, 0),
                        .ld = run->acc.ld,
                        .count = c.count};
    for (int i = 0; i < c.count; i++) {
        sums.memory = run->sums.waiting[c.levels[i]];
        fold.addends[i] = device_matrix_at(&sums, skip, 0);
    }
    sums.memory = c.to < 0 ? run->acc.memory : run->sums.waiting[c.to];
    fold.to = device_matrix_at(&sums, skip, 0);
    if (run->device->fold(run->device, &fold, err) || c.to >= 0)
        return err->code;
    return check_whole(&run->check, rows, fold.to, err);
}

/* All steps of the slab, cut where the check compares. */
static int rows_multiply(struct run *run, const struct block *rows, int64_t number,
                         struct error *err)
{
    const struct slab slab = schedule_slab(run->problem, run->plan, number);
    const int64_t part = check_part(&run->check, slab.size);
    for (int64_t first = 0; first < slab.size; first += part)
        if (steps_multiply(run, rows, &slab, first, err))
            return err->code;
    return slab.ends && run->problem->blocks.steps > 0 ? carry(run, rows, &slab, err) : 0;
}

static int64_t depth_of_slab(const struct run *run)
{
    const struct block *a = &panels_factor(&run->panels, OPERAND_A)->block;
    return run->problem->trans[0] ? a->rows : a->cols;
}

/* Launch the kernels of the run once, on one element of C and whatever is in memory, and wait for
 * them: a kernel's first launch loads it, which waits for those at work.  The check has one that it
 * needs only where sums have begun. */
int run_warm_up(struct run *run, struct error *err)
{
    const struct problem *p = run->problem;
    struct device *dev = run->device;
    struct event *combined = run->drain.drained[0];
    struct block corner = {0, 0, 1, problem_width(p)};
    struct combine combine = drain_combine(&run->drain, &corner);
    const struct mirror mirror = {.type = p->held[OPERAND_C],
                                  .rows = 1,
                                  .cols = 1,
                                  .alpha = p->alpha,
                                  .acc = run->acc.memory,
                                  .to = run->drain.mirror,
                                  .whole = problem_is_exact(p),
                                  .pairs = p->complex};
    void *offset = run->lines.vectors[1];
    const struct recentre recentre = {
        p->type, 1, 1, run->acc.memory, .row_offset = offset, .col_offset = offset};
    const struct reflect reflect = {.type = p->type, .side = 1, .matrix = run->acc.memory};
    if (dev->combine(dev, &combine, err) || (p->symmetric && dev->mirror(dev, &mirror, err)) ||
        (p->symmetric && p->complex && dev->reflect(dev, &reflect, err)) ||
        (scaling_shifts(p) && dev->recentre(dev, &recentre, err)) ||
        dev->record(dev, combined, STREAM_OUT, err) || dev->sync(dev, combined, err))
        return err->code;
    if (run->plan->slabs == 0)
        return 0;
    int64_t last = run->plan->slabs - 1;
    run->acc.block = corner;
    void *panel_b = panels_factor(&run->panels, OPERAND_B)->memory;
    if (panels_warm_up(&run->panels, &corner, last, err) ||
        check_begin(&run->check, &corner, err) ||
        check_slab(&run->check, last, panel_b, run->acc.memory, err) ||
        ((last > 0 || p->continues) &&
         check_slab(&run->check, last, panel_b, run->acc.memory, err)))
        return err->code;
    run->check.judged_before = false; /* no verdict is in memory, to be read as one */
    if (check_columns(&run->check, &corner, err) || rows_multiply(run, &corner, last, err))
        return err->code;
    struct event *done = run->products.ring[0].points[PRODUCT_CHECKED];
    if (dev->record(dev, done, STREAM_COMPUTE, err) || dev->sync(dev, done, err))
        return err->code;
    products_forget(&run->products);
    return 0;
}

enum { STRIPS_WAITING = 8 };

/* Whether so many strips' products wait for the device that it has enough to do; of strips of
 * several steps, each of which is long, fewer, since its queue is full sooner. */
static bool is_busy(struct run *run, struct error *err)
{
    int64_t k = depth_of_slab(run), steps = ceil_div(k, check_part(&run->check, k));
    return products_pending(&run->products, err) >=
           min_i64(STRIPS_WAITING * steps, STRIPS_WAITING + steps);
}

/* Where the next tile has memory of its own, as much of the finished one leaves as there are free
 * slots for; while a part of the step after the reach has come, only as long as the outlet
 * flows. */
static int leave(struct run *run, const struct reach *reach, struct error *err)
{
    const struct reach next = reach_slab(reach->super, reach->slab + 1);
    while (run->plan->tiles > 1 && drain_has(&run->drain, INT64_MAX) && outlet_ready(&run->out) &&
           (outlet_flows(&run->out) || !panels_come(&run->panels, &next)))
        if (drain_part(&run->drain, err))
            return err->code;
    return 0;
}

/* Bring panels; between their parts the finished tile leaves. */
static int bring(struct run *run, const struct reach *reach, struct error *err)
{
    while (panels_bring(&run->panels, reach, err) && leave(run, reach, err) == 0)
        ;
    return err->code;
}

/* Bring the panels of a slab, and make them the current ones. */
static int load(struct run *run, struct reach reach, struct error *err)
{
    if (bring(run, &reach, err) == 0)
        panels_use(&run->panels, reach.super, reach.slab);
    return err->code;
}

/* Bring what a strip needs and, while so many strips wait for the device, what the next ones need,
 * and what has come for the next slab: its queue takes the products of some twelve, and panels
 * would wait behind a full one. */
static int fill(struct run *run, struct reach reach, const struct block *strip, struct error *err)
{
    const int64_t end = run->acc.block.row + run->acc.block.rows;
    const struct reach next = reach_slab(reach.super, reach.slab + 1);
    reach.end_row = strip->row + strip->rows;
    while (bring(run, &reach, err) == 0 && reach.end_row < end && is_busy(run, err))
        reach.end_row = min_i64(reach.end_row + run->plan->strip_rows, end);
    while (!err->code && reach.end_row >= end && next.slab < run->plan->slabs &&
           is_busy(run, err) && panels_come(&run->panels, &next) &&
           panels_bring(&run->panels, &next, err))
        ;
    return err->code;
}

/* Let a strip of the tile before leave, into whose memory products follow.  While no slot is free,
 * panels of the second slab come. */
static int leave_strip(struct run *run, int64_t super, int64_t index, struct error *err)
{
    const struct reach next = reach_slab(super, 1);
    while (drain_has(&run->drain, index)) {
        while (run->plan->slabs > 1 && !outlet_ready(&run->out) &&
               panels_come(&run->panels, &next) && panels_bring(&run->panels, &next, err))
            ;
        if (err->code || drain_part(&run->drain, err))
            return err->code;
    }
    return 0;
}

/* When all panels have come, strips that are done leave while the device is busy. */
static int leave_early(struct run *run, struct error *err)
{
    struct drain *drain = &run->drain;
    while (drain_is_early(drain) && !panels_follow(&run->panels) && is_busy(run, err) &&
           drain_can(drain) && drain_part(drain, err) == 0)
        ;
    return err->code;
}

/* A tile's first slab, and in a triangle each, follows the rows as they come; the first one also,
 * where they share accumulators, the tile before, strip by strip; and the last one goes strip by
 * strip, so that the first strips are drained while the others are multiplied. */
static int slab_by_strips(struct run *run, int64_t super, int64_t slab, struct error *err)
{
    const struct block *tile = &run->acc.block;
    struct drain *drain = &run->drain;
    int64_t strips = schedule_strips(run->plan, tile);
    const bool early = drain_is_early(drain);
    const bool follows = slab == 0 && run->plan->tiles == 1 && !early;
    const struct reach all = reach_slab(super, slab);
    if (early && slab + 1 == run->plan->slabs && drain_begin(drain, &run->acc, err))
        return err->code;
    for (int64_t i = 0; i < strips || (follows && drain_has(drain, INT64_MAX)); i++) {
        struct block strip = schedule_strip(run->problem, run->plan, tile, i);
        if (comm_raised(run->comm))
            return err->code = ERROR_ELSEWHERE;
        if (follows && leave_strip(run, super, i, err))
            return err->code;
        if (block_empty(&strip))
            continue;
        if (fill(run, all, &strip, err) || leave_early(run, err) ||
            panels_prepare(&run->panels, OPERAND_B, err) ||
            panels_prepare(&run->panels, OPERAND_A, err) ||
            check_columns(&run->check, &strip, err) || rows_multiply(run, &strip, slab, err))
            return err->code;
        if (slab + 1 == run->plan->slabs && drain_multiplied(drain, i, err))
            return err->code;
    }
    return bring(run, &all, err);
}

/* A slab of a normal product, which has one tile: all of A's panel is needed for op(B)'s. */
static int slab_of_normal(struct run *run, int64_t super, int64_t slab, struct error *err)
{
    const struct reach all = reach_slab(super, slab);
    const bool last = slab + 1 == run->plan->slabs;
    const struct device_matrix *b = panels_factor(&run->panels, OPERAND_B);
    if ((last && drain_is_early(&run->drain) && drain_begin(&run->drain, &run->acc, err)) ||
        bring(run, &all, err) || normal_multiply(&run->normal, slab, err) ||
        check_slab(&run->check, slab, b->memory, run->acc.memory, err) ||
        rows_multiply(run, &run->acc.block, slab, err))
        return err->code;
    for (int64_t i = 0; last && i < schedule_strips(run->plan, &run->acc.block); i++)
        if (drain_multiplied(&run->drain, i, err))
            return err->code;
    return panels_release(&run->panels, err);
}

static int slab_multiply(struct run *run, int64_t super, int64_t slab, struct error *err)
{
    if (run->problem->normal)
        return slab_of_normal(run, super, slab, err);
    const struct device_matrix *b = panels_factor(&run->panels, OPERAND_B);
    bool by_strips = slab == 0 || slab + 1 == run->plan->slabs || problem_is_triangle(run->problem);
    if (panels_prepare(&run->panels, OPERAND_B, err) ||
        (!by_strips && panels_prepare(&run->panels, OPERAND_A, err)) ||
        check_slab(&run->check, slab, b->memory, run->acc.memory, err) ||
        (by_strips ? slab_by_strips(run, super, slab, err)
                   : rows_multiply(run, &run->acc.block, slab, err)))
        return err->code;
    return panels_release(&run->panels, err);
}

enum { DEEP = 4 }; /* buffers, with which a panel can come while two products wait for theirs */

/* Before the last slab of a tile is multiplied, bring the first one of the next super-block, where
 * there are buffers for it. */
static int prefetch(struct run *run, const struct reach *next, struct error *err)
{
    const struct plan *plan = run->plan;
    if (next->super == schedule_supers(plan) || plan_depth(plan) < DEEP)
        return 0;
    return bring(run, next, err);
}

/* All slabs of the tile, the first of which is on its way; and then the first one of the next tile,
 * so that it is there when this one is drained. */
static int tile_multiply(struct run *run, int64_t super, struct error *err)
{
    const struct block *tile = &run->acc.block;
    const int64_t slabs = run->plan->slabs;
    const int64_t first_row = plan_comes_by_rows(run->problem, run->plan) ? tile->row : INT64_MAX;
    intake_interrupt(&run->in);
    if (check_begin(&run->check, tile, err) ||
        (run->problem->continues && check_resume(&run->check, run->acc.memory, err)))
        return err->code;
    for (int64_t slab = 0; slab < slabs && !comm_raised(run->comm); slab++) {
        const bool last = slab + 1 == slabs;
        const struct reach here = reach_slab(super, slab);
        const struct reach next =
            last ? reach_slab(super + 1, 0) : (struct reach){super, slab + 1, first_row};
        if (outlet_check(&run->out, err) || (last && prefetch(run, &next, err)) ||
            slab_multiply(run, super, slab, err) || leave(run, &here, err) ||
            (!last && save_step(run, super, slab + 1, err)) || load(run, next, err))
            return err->code;
    }
    return 0;
}

/* A super-block in which this rank has no tile.  It takes what comes for its later ones when all
 * others do: in a step they may wait for each other. */
static int super_pass(struct run *run, int64_t super, struct error *err)
{
    int64_t slabs = run->plan->slabs > 0 ? run->plan->slabs : 1;
    run->acc.block = (struct block){0};
    for (int64_t slab = 1; slab <= slabs; slab++)
        if ((slab == slabs && load(run, reach_slab(super + 1, 0), err)) ||
            save_step(run, super, slab, err) ||
            (slab < slabs && load(run, reach_slab(super, slab), err)))
            return err->code;
    return 0;
}

/* Wait until all tiles are in C's file. */
static int finish(struct run *run, struct error *err)
{
    if (check_judge(&run->check, err) ||
        products_retire(&run->products, run->products.count, err) || intake_finish(&run->in, err) ||
        outlet_finish(&run->out, err))
        return err->code;
    phase_begin("making C durable", 0);
    const bool fails = run->normal.store && normal_settle(&run->normal, &run->check, err);
    return fails ? err->code : store_sync(run->c.store, err);
}

static int all_tiles(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    int rank = comm_place(run->comm);
    int64_t found = 0; /* the super-block after that of `tile` */
    struct block tile = schedule_next_tile(run->problem, plan, rank, &found);
    if (load(run, (struct reach){.end_row = tile.row}, err))
        return err->code;
    for (int64_t super = 0; super < schedule_supers(plan); super++) {
        if (block_empty(&tile) || super + 1 < found) {
            if (super_pass(run, super, err))
                return err->code;
            continue;
        }
        struct block next = schedule_next_tile(run->problem, plan, rank, &found);
        bool follows = !block_empty(&next) && found == super + 2;
        run->acc.block = tile;
        if (tile_multiply(run, super, err))
            return err->code;
        if (comm_raised(run->comm))
            return err->code = ERROR_ELSEWHERE;
        run->tiles++;
        if (drain_rest(&run->drain, err) ||
            (!drain_is_early(&run->drain) && drain_begin(&run->drain, &run->acc, err)))
            return err->code;
        run->acc.memory = run->sums.tiles[run->tiles % plan->tiles];
        if ((!follows || plan->slabs == 0) && !run->drain.last && drain_rest(&run->drain, err))
            return err->code;
        if (save_step(run, super, plan->slabs > 0 ? plan->slabs : 1, err))
            return err->code;
        tile = next;
    }
    return save_finish(run, err);
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

bool run_fails_anywhere(struct run *run, struct error *err)
{
    if (err->code > 0 && err->code != EXIT_STOPPED)
        comm_raise(run->comm); /* others may be at their last steps */
    if (comm_sum(run->comm, err->code != 0) > 0 && !err->code)
        err->code = ERROR_ELSEWHERE;
    return err->code != 0;
}

/* Collective.  All is multiplied, and nothing has left: what is still missing before it can. */
static int complete(struct run *run, struct error *err)
{
    if (run->plan->layers > 1)
        layers_add(run, err);
    if (run_fails_anywhere(run, err) || !run->lines.census ||
        census_finish(run->lines.census, run->lines.statistics, err))
        return err->code;
    run->lines.statistics->known = true;
    run->lines.again = run->lines.statistics->moved > 0;
    return run->lines.again ? 0 : run_recentre(run, err);
}

/* Collective.  What could not leave before leaves now. */
static int finish_last(struct run *run, struct error *err)
{
    struct drain *drain = &run->drain;
    struct device *dev = run->device;
    if (complete(run, err) || run->lines.again)
        return err->code;
    const bool has = run->comm->layer == 0 && !block_empty(&drain->tile.block);
    for (int64_t i = 0; has && i < schedule_strips(run->plan, &drain->tile.block); i++)
        if (dev->record(dev, drain->multiplied[1 - drain->turn][i], STREAM_COMPUTE, err))
            return err->code;
    if (has && drain_rest(drain, err))
        return err->code;
    return finish(run, err);
}

int run_execute(struct run *run, struct error *err)
{
    bool last = run->drain.last;
    if (exchange_open(&run->exchange, run->comm, &run->in, &run->cache, run->trace, err) ||
        all_tiles(run, err) ||
        (last ? products_retire(&run->products, run->products.count, err) : finish(run, err))) {
        run_stop(run); /* those who wait for this rank's copies would wait for ever */
        if (err->code == ERROR_ELSEWHERE) /* or was it a thread of this rank that failed? */
            say_why(run, err);
    }
    exchange_finish(&run->exchange);
    if (last)
        finish_last(run, err);
    return err->code;
}
