#include "drain.h"

#include "error.h"
#include "schedule.h"

int drain_open(struct drain *d, struct error *err)
{
    struct device *dev = d->device;
    return events_create(dev, d->c0_used, 2, err) ||
                   events_create(dev, d->multiplied, STRIPS_MAX, err) ||
                   events_create(dev, d->drained, STRIPS_MAX, err)
               ? err->code
               : 0;
}

void drain_close(struct drain *d)
{
    if (!d->device)
        return;
    events_destroy(d->device, d->c0_used, 2);
    events_destroy(d->device, d->multiplied, STRIPS_MAX);
    events_destroy(d->device, d->drained, STRIPS_MAX);
}

int drain_copy(struct drain *d, const struct matrix *acc, const struct block *part,
               struct error *err)
{
    while (!outlet_ready(d->out) && panels_try(d->panels, err))
        ;
    return err->code ? err->code : outlet_copy(d->out, acc, part, err);
}

bool drain_computes(const struct drain *d)
{
    const struct problem *p = d->problem;
    return d->plan->layers == 1 && (problem_mirrors(p) || p->alpha != 1 || p->alpha_i != 0 ||
                                    problem_reads_c(p) || problem_gives_integers(p));
}

/* A part of C0 to the device; `buffer` alternates. */
static int load_c0(struct drain *d, const struct block *part, int buffer, struct error *err)
{
    struct device *dev = d->device;
    struct matrix c0 = {problem_held(d->problem, OPERAND_C), d->c0[buffer], part->cols, *part};
    if (dev->wait(dev, STREAM_IN, d->c0_used[buffer], err) || intake_copy(d->in, &c0, NULL, err) ||
        dev->record(dev, d->c0_used[buffer], STREAM_IN, err))
        return err->code;
    return dev->wait(dev, STREAM_OUT, d->c0_used[buffer], err);
}

struct combine drain_combine(const struct drain *d, const struct block *part)
{
    const struct problem *p = d->problem;
    return (struct combine){
        .type = p->type,
        .rows = part->rows,
        .cols = part->cols,
        .alpha = d->plan->slabs ? p->alpha : 0,
        .alpha_i = d->plan->slabs ? p->alpha_i : 0,
        .beta = p->beta,
        .beta_i = p->beta_i,
        .acc = matrix_at(&d->tile, part->row - d->tile.block.row, part->col - d->tile.block.col),
        .c0 = d->c0[d->parts % 2],
        .ld_acc = d->tile.ld,
        .ld_c0 = part->cols,
        .whole = problem_gives_integers(p)};
}

/* C = alpha acc + beta C0 in the accumulators of one part of the tile. */
static int combine_part(struct drain *d, const struct block *part, struct error *err)
{
    const struct problem *p = d->problem;
    struct device *dev = d->device;
    struct combine combine = drain_combine(d, part);
    int buffer = (int)(d->parts++ % 2);
    if (combine.alpha == 1 && combine.alpha_i == 0 && !problem_reads_c(p) && !combine.whole)
        return 0;
    if (problem_reads_c(p) && load_c0(d, part, buffer, err))
        return err->code;
    if (dev->combine(dev, &combine, err))
        return err->code;
    return problem_reads_c(p) ? dev->record(dev, d->c0_used[buffer], STREAM_OUT, err) : 0;
}

/* What a part of a mirror is made of. */
struct mirrored {
    double alpha, beta; /* alpha acc^T + beta C0 */
    bool whole;         /* as integers */
};

static int mirror_part(struct drain *d, const struct matrix *acc, const struct block *part,
                       const struct mirrored *how, struct error *err)
{
    struct device *dev = d->device;
    int buffer = (int)(d->parts % 2);
    struct mirror mirror = {
        .type = d->problem->type,
        .rows = part->cols,
        .cols = part->rows,
        .alpha = how->alpha,
        .beta = how->beta,
        .acc = matrix_at(acc, part->col - acc->block.row, part->row - acc->block.col),
        .c0 = d->c0[buffer],
        .to = d->mirror,
        .ld_acc = acc->ld,
        .ld_c0 = part->cols,
        .ld_to = part->cols,
        .whole = how->whole};
    struct matrix to = {d->problem->type, d->mirror, part->cols, *part};
    if (how->beta != 0) {
        d->parts++;
        if (load_c0(d, part, buffer, err))
            return err->code;
    }
    if (dev->mirror(dev, &mirror, err) ||
        (how->beta != 0 && dev->record(dev, d->c0_used[buffer], STREAM_OUT, err)))
        return err->code;
    return drain_copy(d, &to, part, err);
}

static int drain_mirror(struct drain *d, const struct matrix *acc, int64_t index,
                        const struct mirrored *how, struct error *err)
{
    struct block_cut cut = schedule_cut(d->problem, d->plan, OPERAND_C);
    for (int i = 0; i < MIRRORS; i++) {
        struct block all = schedule_mirror(d->problem, d->plan, &acc->block, index, i);
        for (int64_t j = 0; j < block_cut_parts(&all, &cut); j++) {
            struct block part = block_cut_part(&all, &cut, j);
            if (mirror_part(d, acc, &part, how, err))
                return err->code;
        }
    }
    return 0;
}

int drain_sums_mirror(struct drain *d, const struct matrix *acc, int64_t index, struct error *err)
{
    return drain_mirror(d, acc, index, &(struct mirrored){1, 0, false}, err);
}

int drain_strip(struct drain *d, int64_t index, struct error *err)
{
    struct device *dev = d->device;
    const struct problem *p = d->problem;
    struct block strip = schedule_strip(p, d->plan, &d->tile.block, index);
    struct block_cut cut = schedule_cut(p, d->plan, OPERAND_C);
    const struct mirrored how = {p->alpha, p->beta, problem_gives_integers(p)};
    int64_t parts = block_cut_parts(&strip, &cut);
    if (parts == 0)
        return 0;
    if (dev->wait(dev, STREAM_OUT, d->multiplied[index], err) ||
        (problem_mirrors(p) && drain_mirror(d, &d->tile, index, &how, err)))
        return err->code;
    for (int64_t i = 0; i < parts; i++) {
        struct block part = block_cut_part(&strip, &cut, i);
        if (combine_part(d, &part, err) || drain_copy(d, &d->tile, &part, err))
            return err->code;
    }
    if (check_drain(d->check, &d->tile.block, &strip, err) ||
        dev->record(dev, d->drained[index], STREAM_OUT, err) ||
        dev->wait(dev, STREAM_COMPUTE, d->drained[index], err))
        return err->code;
    if (index + 1 == schedule_strips(d->plan, &d->tile.block))
        d->tile.block = (struct block){0};
    return 0;
}

int drain_rest(struct drain *d, struct error *err)
{
    for (int64_t i = 0; !block_empty(&d->tile.block); i++) {
        if (comm_raised(d->comm))
            return err->code = ERROR_ELSEWHERE;
        if (drain_strip(d, i, err))
            return err->code;
    }
    return 0;
}
