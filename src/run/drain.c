#include "drain.h"

#include "error.h"
#include "schedule.h"
#include "triangle.h"

int drain_open(struct drain *d, struct error *err)
{
    struct device *dev = d->device;
    return events_create(dev, d->c0_used, 2, err) ||
                   events_create(dev, d->multiplied[0], STRIPS_MAX, err) ||
                   events_create(dev, d->multiplied[1], STRIPS_MAX, err) ||
                   events_create(dev, d->drained, STRIPS_MAX, err)
               ? err->code
               : 0;
}

void drain_close(struct drain *d)
{
    if (!d->device)
        return;
    events_destroy(d->device, d->c0_used, 2);
    events_destroy(d->device, d->multiplied[0], STRIPS_MAX);
    events_destroy(d->device, d->multiplied[1], STRIPS_MAX);
    events_destroy(d->device, d->drained, STRIPS_MAX);
}

bool drain_computes(const struct drain *d)
{
    const struct problem *p = d->problem;
    const bool mirrors = problem_mirrors(p) || (p->symmetric && p->complex); /* in squares, too */
    return !d->last && (mirrors || d->recentre.count > 0 || p->alpha != 1 || p->alpha_i != 0 ||
                        problem_reads_c(p) || problem_rounds(p));
}

/* A part of C0 to the device; `buffer` alternates. */
static int load_c0(struct drain *d, const struct block *part, int buffer, struct error *err)
{
    struct device *dev = d->device;
    struct device_matrix c0 = {d->problem->held[OPERAND_C], d->c0[buffer], part->cols, *part};
    intake_interrupt(d->in);
    if (dev->wait(dev, STREAM_IN, d->c0_used[buffer], err) || intake_copy(d->in, &c0, NULL, err) ||
        dev->record(dev, d->c0_used[buffer], STREAM_IN, err))
        return err->code;
    return dev->wait(dev, STREAM_OUT, d->c0_used[buffer], err);
}

struct combine drain_combine(const struct drain *d, const struct block *part)
{
    const struct problem *p = d->problem;
    return (struct combine){.type = p->held[OPERAND_C],
                            .rows = part->rows,
                            .cols = part->cols,
                            .alpha = d->plan->slabs ? p->alpha : 0,
                            .alpha_i = d->plan->slabs ? p->alpha_i : 0,
                            .beta = p->beta,
                            .beta_i = p->beta_i,
                            .acc = device_matrix_at(&d->tile, part->row - d->tile.block.row,
                                                    part->col - d->tile.block.col),
                            .c0 = d->c0[d->parts % 2],
                            .ld_acc = d->tile.ld,
                            .ld_c0 = part->cols,
                            .whole = problem_is_exact(p)};
}

/* C = alpha acc + beta C0 in the accumulators of one part of the tile. */
static int combine_part(struct drain *d, const struct block *part, struct error *err)
{
    const struct problem *p = d->problem;
    struct device *dev = d->device;
    struct combine combine = drain_combine(d, part);
    int buffer = (int)(d->parts++ % 2);
    if (combine.alpha == 1 && combine.alpha_i == 0 && !problem_reads_c(p) && !problem_rounds(p))
        return 0;
    if (problem_reads_c(p) && load_c0(d, part, buffer, err))
        return err->code;
    if (dev->combine(dev, &combine, err))
        return err->code;
    return problem_reads_c(p) ? dev->record(dev, d->c0_used[buffer], STREAM_OUT, err) : 0;
}

/* What a part of a mirror is made of. */
struct mirrored {
    double alpha, beta, alpha_i, beta_i; /* alpha acc^T + beta C0 */
    enum scalar type;                    /* that it has */
    bool whole;                          /* as in struct mirror */
    const struct sink *to;
    int64_t shift; /* rows by which its place there is lower */
};

/* What becomes of C. */
static struct mirrored as_c(const struct drain *d)
{
    const struct problem *p = d->problem;
    return (struct mirrored){
        p->alpha, p->beta, p->alpha_i, p->beta_i, p->held[OPERAND_C], problem_is_exact(p),
        &d->to,   0};
}

static int mirror_part(struct drain *d, const struct device_matrix *acc, const struct block *part,
                       const struct mirrored *how, struct error *err)
{
    struct device *dev = d->device;
    const int64_t width = problem_width(d->problem);
    const struct block of = triangle_mirror(part, width);
    const bool with_c0 = how->beta != 0 || how->beta_i != 0;
    int buffer = (int)(d->parts % 2);
    struct mirror mirror = {
        .type = how->type,
        .rows = of.rows,
        .cols = of.cols / width,
        .alpha = how->alpha,
        .beta = how->beta,
        .acc = device_matrix_at(acc, of.row - acc->block.row, of.col - acc->block.col),
        .c0 = d->c0[buffer],
        .to = d->mirror,
        .ld_acc = acc->ld,
        .ld_c0 = part->cols,
        .ld_to = part->cols,
        .whole = how->whole,
        .pairs = d->problem->complex,
        .conjugate = problem_is_hermitian(d->problem),
        .alpha_i = how->alpha_i,
        .beta_i = how->beta_i};
    struct device_matrix to = {how->type, d->mirror, part->cols, *part};
    to.block.row += how->shift;
    if (with_c0) {
        d->parts++;
        if (load_c0(d, part, buffer, err))
            return err->code;
    }
    if (dev->mirror(dev, &mirror, err) ||
        (with_c0 && dev->record(dev, d->c0_used[buffer], STREAM_OUT, err)))
        return err->code;
    return outlet_copy(d->out, &to, &to.block, how->to, err);
}

/* Make what a strip's square has above the diagonal the mirror of what it has below, where the
 * general product has other bits; and imaginary parts on the diagonal of a Hermitian product 0,
 * which they are but for rounding: of the sign that gives +0 when alpha has multiplied it. */
static int reflect_square(struct drain *d, int64_t index, struct error *err)
{
    const struct problem *p = d->problem;
    const struct block square = schedule_square(p, d->plan, &d->tile.block, index);
    if (!p->complex || block_empty(&square))
        return 0;
    const struct reflect reflect = {.type = p->type,
                                    .side = square.rows,
                                    .matrix =
                                        device_matrix_at(&d->tile, square.row - d->tile.block.row,
                                                         square.col - d->tile.block.col),
                                    .ld = d->tile.ld,
                                    .conjugate = problem_is_hermitian(p),
                                    .zero = p->alpha < 0 ? -0.0 : 0.0};
    return d->device->reflect(d->device, &reflect, err);
}

/* Part `number` of a strip's mirrors; false where they have no more. */
static bool find_mirror(const struct drain *d, const struct block *tile, int64_t index,
                        int64_t number, struct block *part)
{
    const struct block_cut cut = schedule_cut(d->problem, d->plan, OPERAND_C);
    for (int i = 0; i < MIRRORS; i++) {
        const struct block all = schedule_mirror(d->problem, d->plan, tile, index, i);
        int64_t parts = block_cut_parts(&all, &cut);
        if (number < parts) {
            *part = block_cut_part(&all, &cut, number);
            return true;
        }
        number -= parts;
    }
    return false;
}

int drain_sums_mirror(struct drain *d, const struct device_matrix *acc, int64_t index,
                      const struct saved_place *to, struct error *err)
{
    const struct mirrored how = {
        .alpha = 1, .type = d->problem->sums, .to = to->sink, .shift = to->shift};
    struct block part;
    for (int64_t i = 0; find_mirror(d, &acc->block, index, i, &part); i++)
        if (mirror_part(d, acc, &part, &how, err))
            return err->code;
    return 0;
}

bool drain_is_early(const struct drain *d)
{
    const struct plan *plan = d->plan;
    return plan->slabs > 0 && !d->last && schedule_supers(plan) == 1 &&
           !problem_reads_c(d->problem);
}

int drain_begin(struct drain *d, const struct device_matrix *tile, struct error *err)
{
    struct device *dev = d->device;
    if (d->strip > 0 && dev->wait(dev, STREAM_COMPUTE, d->drained[d->strip - 1], err))
        return err->code;
    d->tile = *tile;
    d->strip = d->mirrors = d->part = 0;
    d->ready = drain_is_early(d) ? 0 : schedule_strips(d->plan, &tile->block);
    d->turn = 1 - d->turn;
    return 0;
}

int drain_multiplied(struct drain *d, int64_t index, struct error *err)
{
    const bool early = drain_is_early(d);
    const int turn = early ? 1 - d->turn : d->turn;
    if (early)
        d->ready = index + 1;
    return d->device->record(d->device, d->multiplied[turn][index], STREAM_COMPUTE, err);
}

/* The strip's products are about to become parts of C. */
static int begin_strip(struct drain *d, const struct block *strip, struct error *err)
{
    struct device *dev = d->device;
    struct recentre r = d->recentre;
    if (dev->wait(dev, STREAM_OUT, d->multiplied[1 - d->turn][d->strip], err) || r.count == 0)
        return err->code;
    r.rows = strip->rows;
    r.cols = strip->cols;
    r.acc =
        device_matrix_at(&d->tile, strip->row - d->tile.block.row, strip->col - d->tile.block.col);
    r.ld = d->tile.ld;
    r.row_offset += strip->row;
    r.col_offset += strip->col;
    if (r.row_deviation) {
        r.row_deviation += strip->row;
        r.col_deviation += strip->col;
    }
    return dev->recentre(dev, &r, err);
}

static int end_strip(struct drain *d, const struct block *strip, struct error *err)
{
    struct device *dev = d->device;
    if (check_drain(d->check, &d->tile.block, strip, err) ||
        dev->record(dev, d->drained[d->strip], STREAM_OUT, err) ||
        (d->plan->tiles == 1 && !drain_is_early(d) &&
         dev->wait(dev, STREAM_COMPUTE, d->drained[d->strip], err)))
        return err->code;
    d->strip++;
    d->mirrors = d->part = 0;
    if (d->strip == schedule_strips(d->plan, &d->tile.block))
        d->tile.block = (struct block){0};
    return 0;
}

int drain_part(struct drain *d, struct error *err)
{
    const struct mirrored how = as_c(d);
    const struct block strip = schedule_strip(d->problem, d->plan, &d->tile.block, d->strip);
    const struct block_cut cut = schedule_cut(d->problem, d->plan, OPERAND_C);
    struct block part;
    if (d->mirrors == 0 && d->part == 0 && begin_strip(d, &strip, err))
        return err->code;
    if (problem_mirrors(d->problem) &&
        find_mirror(d, &d->tile.block, d->strip, d->mirrors, &part)) {
        d->mirrors++;
        return mirror_part(d, &d->tile, &part, &how, err);
    }
    part = block_cut_part(&strip, &cut, d->part);
    if ((d->part == 0 && reflect_square(d, d->strip, err)) || combine_part(d, &part, err) ||
        outlet_copy(d->out, &d->tile, &part, &d->to, err))
        return err->code;
    return ++d->part == block_cut_parts(&strip, &cut) ? end_strip(d, &strip, err) : 0;
}

bool drain_can(const struct drain *d)
{
    return drain_has(d, d->ready - 1) &&
           d->device->reached(d->device, d->multiplied[1 - d->turn][d->strip]);
}

int drain_rest(struct drain *d, struct error *err)
{
    while (drain_has(d, INT64_MAX)) {
        if (comm_raised(d->comm))
            return err->code = ERROR_ELSEWHERE;
        if (drain_part(d, err))
            return err->code;
    }
    return 0;
}
