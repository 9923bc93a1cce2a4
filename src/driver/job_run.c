/* The work: an attempt at each piece of what is left, saved now and then. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "job.h"
#include "leftovers.h"
#include "meter.h"
#include "notice.h"
#include "phase.h"
#include "quantity.h"
#include "save.h"
#include "saved_sums.h"
#include "schedule.h"
#include "sums.h"
#include "text.h"
#include "ticker.h"
#include "triangle.h"

/* The attempts of one job_run. */
struct execution {
    const struct caller *caller;
    const struct hardware *hardware;
    struct job *job;
    struct outlook *outlook;
    struct record *record;
    struct error *err;
    struct trace trace;   /* this and the page: of all attempts, on one timeline */
    struct ticker ticker; /* rank 0 */

    /* The one at work: */
    struct problem layer;   /* this rank's layer of the problem (layers.h), */
    struct plan layer_plan; /* and the plan of that */
    struct progress before; /* of the whole product */
    struct run run;
    double started; /* clock_now, of the pipeline */
};

/* The progress of the product when so much of the attempt is done.  False when what is left would
 * be too many pieces. */
static bool advance(const struct execution *e, const struct saved *saved, struct progress *now)
{
    *now = e->before;
    for (int i = 0; i < ROW_GROUPS; i++)
        now->checksums.sums[i] += saved->checksums.sums[i];
    findings_merge(&now->findings, &saved->findings);
    now->seconds += clock_now() - e->started;
    return work_advance(&now->left, &e->outlook->first.plan, saved->supers, &saved->piece);
}

/* Write down what is left now.  False, with a reason, where that cannot be; it ends no run. */
static bool save_progress(struct execution *e, const struct saved *saved, struct progress *now,
                          struct error *why)
{
    if (!advance(e, saved, now)) {
        error_add(why, EXIT_RESOURCES, "the rest of C is in too many pieces for a checkpoint");
        return false;
    }
    now->saved = true;
    if (e->caller->comm->rank > 0)
        return true;
    if (journal_save(&e->job->journal, now, why))
        return false;
    leftovers_keep();
    return true;
}

/* All ranks have saved: rank 0 writes down what is left now. */
static int when_saved(void *context, const struct saved *saved, bool *known, struct error *err)
{
    struct execution *e = context;
    struct job *job = e->job;
    struct progress now;
    struct error why = {0};
    phase_end();
    *known = false;
    if (e->caller->comm->local_rank == 0 && operand_state_check(&e->job->operands, err))
        return err->code;
    if (saved->supers > 0 || saved->piece.k > 0) {
        uint64_t lost = !save_progress(e, saved, &now, &why);
        if (!comm_vote_sum(e->caller->comm, &lost, 1))
            return err->code = ERROR_ELSEWHERE;
        *known = lost == 0;
    }
    if (*known) {
        e->job->progress = now;
        e->job->durable = now.left;
        e->job->safe_s = fmax(e->job->safe_s, saved->since);
    }
    if (saved->note[0])
        job_warn_unsaved(job, saved->stops, "cannot save the partial sums: ", saved->note);
    if (why.code && e->caller->comm->rank == 0)
        job_warn_unsaved(job, saved->stops, "", why.text);
    if (*known)
        caller_print(e->caller->details, "Saved       %.1f %% is done\n",
                     100 * work_done(&now.left, &job->problem));
    return 0;
}

static int when_met(void *context, const struct run_totals *all, struct error *err)
{
    struct execution *e = context;
    ticker_tell(&e->ticker, all);
    return e->caller->comm->rank == 0 ? operand_state_glance(&e->job->operands, err) : 0;
}

/* The user who has sent the signal may be at a keyboard, and send it again. */
static void when_stopping(void *context, double stop_s)
{
    const struct execution *e = context;
    const struct attempt *a = &e->outlook->first;
    const char *urge =
        stop_can_be_urged()
            ? text_make(". Signal again after 2 seconds to quit without saving; that loses the "
                        "last %s",
                        quantity_time(clock_now() - e->job->safe_s))
            : "";
    stop_s = fmax(stop_s, attempt_stop_seconds(a, &e->hardware->machine));
    if (e->caller->comm->rank == 0)
        notice("stopping (%s): the checkpoint takes %s%s%s", stop_reason(),
               stop_s < 1 ? "less than " : "about ",
               stop_s < 1 ? "a second" : quantity_time(stop_s), urge);
}

/* Collective.  Open the run of the planned attempt. */
static int open_run(struct execution *e)
{
    const struct caller *caller = e->caller;
    const struct attempt *a = &e->outlook->first;
    const bool html = caller->options->files.html[0];
    struct job *job = e->job;
    comm_form_layers(caller->comm, a->plan.layers, a->plan.ranks_per_node);
    e->layer = plan_layer_problem(&a->problem, &a->plan, caller->comm->layer);
    e->layer_plan = plan_layer(&a->plan, &e->layer);
    struct block tile = schedule_tile(&e->layer, &e->layer_plan, comm_place(caller->comm), 0);
    e->layer_plan.ld[OPERAND_C] = plan_tile_ld(&e->layer, &e->layer_plan, &tile);
    e->before = job->progress;
    e->run = (struct run){.problem = &e->layer,
                          .plan = &e->layer_plan,
                          .request = &a->request,
                          .output = &job->output.source,
                          .normal = {.output = &job->output.beside},
                          .comm = caller->comm,
                          .device = e->hardware->device,
                          .trace = &e->trace,
                          .piece = &e->before.left.pieces[0],
                          .lines.statistics = &job->statistics,
                          .check = {.seed = caller->options->check.seed,
                                    .rounded = job->progress.findings.rounded,
                                    .map = html ? &e->record->page.map : NULL},
                          .saver = {.done = when_saved,
                                    .met = when_met,
                                    .stops = when_stopping,
                                    .context = e,
                                    .names = &job->output.names,
                                    .known = &job->durable}};
    run_open(&e->run, e->err);
    return comm_agree(caller->comm, e->err);
}

static void plan_again(struct execution *e)
{
    job_plan_first(e->caller, &e->hardware->machine, e->job, e->outlook, e->err);
}

/* The saved sums of the first piece are of no use, and why: plan it from the beginning. */
static void discard_sums(struct execution *e, const char *why)
{
    struct piece *piece = &e->job->progress.left.pieces[0];
    phase_end();
    if (e->caller->comm->rank == 0)
        notice("the saved sums of C from row %" PRId64 ", column %" PRId64
               " on %s; they are computed again",
               piece->block.row, piece->block.col, why);
    piece->k = 0;
    plan_again(e);
}

/* Collective.  The checksum of a block of a piece's saved sums. */
static uint64_t hash_block(struct execution *e, const struct piece *piece,
                           const struct block *block, struct error *cannot)
{
    const struct problem *p = &e->job->problem;
    const struct source *c = &e->job->output.source;
    const struct source source = saved_sums_matrix(p, c, e->job->output.names.sums[piece->place],
                                                   sums_saved(p, piece->layers));
    const struct sums_there sums = sums_there(p, piece->k);
    const int count = piece->layers * sums.count;
    uint64_t total = 0;
    phase_begin("checking saved sums", count * (double)(block->rows * block->cols) *
                                           (double)problem_element(p, OPERAND_C));
    for (int i = 0; i < count; i++) {
        struct block there = *block;
        const struct reading part = {&source, p->held[OPERAND_C], &there, 1, 1, false};
        struct row_checksums checksums;
        there.row += c->matrix.rows *
                     sums_place(p, piece->layers, i / sums.count, sums.levels[i % sums.count]);
        row_checksums_read(&part, e->caller->comm, &checksums, cannot);
        total += row_checksums_total(&checksums);
    }
    return total;
}

/* Collective.  Compute the checksum of each of the pieces that a piece was split into, from its
 * saved sums.  False where these cannot be read, or are not together what was saved. */
static bool hash_parts(struct execution *e, struct piece *parts, int count,
                       const struct piece *whole)
{
    struct error cannot = {0};
    uint64_t total = 0;
    if (!e->outlook->first.request.verify)
        return true;
    for (int i = 0; i < count; i++) {
        parts[i].sum = hash_block(e, whole, &parts[i].block, &cannot);
        parts[i].hashed = true;
        total += parts[i].sum;
    }
    return comm_min(e->caller->comm, !cannot.code) && (!whole->hashed || total == whole->sum);
}

/* Collective.  Likewise, of the pieces of a triangle that was halved: the square that was saved
 * holds the mirrors of rectangles, too.  Where it is damaged, they begin anew. */
static int hash_halves(struct execution *e)
{
    struct work *left = &e->job->progress.left;
    struct error cannot = {0};
    uint64_t total = 0, saved = 0;
    bool hashed = false, any = false;
    for (int i = 0; i < left->count && e->outlook->first.request.verify; i++) {
        struct piece *piece = &left->pieces[i];
        const struct block mirror = triangle_mirror(&piece->block, left->width);
        if (!piece->halved)
            continue;
        hashed = any ? hashed : piece->hashed;
        saved = any ? saved : piece->sum;
        any = true;
        piece->sum = hash_block(e, piece, &piece->block, &cannot);
        piece->hashed = true;
        total += piece->sum;
        if (!block_equal(&mirror, &piece->block))
            total += hash_block(e, piece, &mirror, &cannot);
    }
    bool whole = !any || (comm_min(e->caller->comm, !cannot.code) && (!hashed || total == saved));
    for (int i = 0; i < left->count; i++) {
        struct piece *piece = &left->pieces[i];
        piece->k = piece->halved && !whole ? 0 : piece->k;
        piece->halved = false;
    }
    if (!whole)
        discard_sums(e, "are damaged");
    return comm_agree(e->caller->comm, e->err);
}

/* Collective.  Sums that were saved by more or fewer layers, or of shifts that have been replaced
 * since, are computed again. */
static int fit_sums(struct execution *e)
{
    struct work *left = &e->job->progress.left;
    const struct piece *first = &left->pieces[0];
    const int layers = e->outlook->first.plan.layers;
    const bool moved = e->job->statistics.moved > 0;
    for (int i = 1; i < left->count; i++)
        if (left->pieces[i].layers != layers || (moved && left->pieces[i].sampled))
            left->pieces[i].k = 0;
    if (first->k > 0 && moved && first->sampled)
        discard_sums(e, "are of a sample's shifts, which are too far from the means");
    else if (first->k > 0 && first->layers != layers)
        discard_sums(e, text_make("are of %d layers of ranks, which these ranks do not form",
                                  first->layers));
    return comm_agree(e->caller->comm, e->err);
}

/* Collective.  Split the first piece, where sums of it were saved by ranks with more memory, until
 * it can be one super-block. */
static int split_piece(struct execution *e)
{
    struct work *left = &e->job->progress.left;
    while (left->pieces[0].k > 0 && schedule_supers(&e->outlook->first.plan) > 1) {
        const struct work before = *left;
        if (work_split(left, &e->outlook->first.plan) &&
            hash_parts(e, left->pieces, left->count - before.count + 1, &before.pieces[0])) {
            plan_again(e);
        } else {
            *left = before;
            discard_sums(e, "are damaged");
        }
        if (comm_agree(e->caller->comm, e->err))
            return e->err->code;
    }
    return 0;
}

/* Collective.  Open the attempt with the sums that were saved of its piece, or from the beginning
 * where these have been damaged since. */
static int open_attempt(struct execution *e)
{
    struct attempt *a = &e->outlook->first;
    bool whole = true;
    if (open_run(e) || (a->problem.continues && save_load(&e->run, &whole, e->err)) || whole)
        return e->err->code;
    run_close(&e->run);
    discard_sums(e, "are damaged");
    return comm_agree(e->caller->comm, e->err) ? e->err->code : open_run(e);
}

/* The tiles of one rank that failed their check. */
struct failures {
    int count;
    struct block tiles[CHECK_AGAIN_MAX];
    double ratio;
    char device[96];
};

/* Collective.  Take a tile out of what is complete, and its mirror where that is written, and leave
 * it to be done. */
static void requeue(struct execution *e, const struct block *tile)
{
    const struct block blocks[] = {*tile, triangle_mirror(tile, problem_width(&e->job->problem))};
    const int count =
        problem_mirrors(&e->job->problem) && !block_equal(&blocks[0], &blocks[1]) ? 2 : 1;
    const struct reading what = {
        &e->job->output.source, problem_written(&e->job->problem), blocks, count, 1, false};
    struct progress *now = &e->job->progress;
    struct row_checksums checksums;
    struct error why = {0};
    if (row_checksums_read(&what, e->caller->comm, &checksums,
                           &why)) /* on this rank: all go on in step */
        error_add(e->err, EXIT_RUNTIME, "C cannot be read back: %s", why.text);
    if (!work_again(&now->left, tile))
        error_add(e->err, EXIT_VERIFY, "too many tiles failed their check");
    for (int group = 0; group < ROW_GROUPS; group++)
        now->checksums.sums[group] -= checksums.sums[group];
}

/* A clause. */
static const char *how_wrong(double ratio)
{
    if (isinf(ratio)) /* wrong residues, or NaN where there can be none */
        return "cannot be right";
    return text_make("differs by %.3g times the bound of rounding errors", ratio);
}

/* Collective.  Leave the tiles of the attempt that failed their check to be done once more.  The
 * rank that adds a layer's wrong sum has failed, too, and comes before it. */
static int requeue_failed(struct execution *e)
{
    const struct check *check = &e->run.check;
    bool any = comm_sum(e->caller->comm, (uint64_t)check->verdict.failures) > 0;
    for (int rank = e->caller->comm->size - 1; rank >= 0 && any; rank--) {
        struct failures f = {.count = check->verdict.failures,
                             .ratio = check->verdict.failed_ratio};
        memcpy(f.tiles, check->verdict.failed, sizeof f.tiles);
        snprintf(f.device, sizeof f.device, "%s", e->hardware->device->info.name);
        comm_share(e->caller->comm, &f, sizeof f, rank);
        for (int i = 0; i < f.count; i++) {
            const struct problem *p = &e->outlook->first.problem;
            const struct block all = {p->row, p->col, p->m, p->n};
            const struct block *tile = problem_is_triangle(p) ? &all : &f.tiles[i];
            if (work_has(&e->job->progress.left, tile))
                continue;
            if (e->caller->comm->rank == 0)
                notice("rank %d (%s): the tile of C at (%" PRId64 ", %" PRId64
                       ") failed its check: it %s; it is computed again",
                       rank, f.device, tile->row, tile->col, how_wrong(f.ratio));
            requeue(e, tile);
        }
    }
    return comm_agree(e->caller->comm, e->err);
}

/* Collective.  Report what the attempt did. */
static void report_attempt(const struct execution *e)
{
    const struct caller *caller = e->caller;
    const struct problem *p = &e->job->problem;
    const struct plan_request *request = &e->outlook->first.request;
    const struct kernel *kernel = kernels[request->algorithm];
    struct report *r = &e->record->report;
    r->checked = request->verify;
    r->same_bits = kernel->same_bits;
    snprintf(r->algorithm, sizeof r->algorithm, "%s",
             p->moduli > 0 || problem_is_exact(p) ? problem_kernels(p, caller->options)
                                                  : kernel->name);
    r->wall_s += clock_now() - e->started;
    report_gather(&e->run, r);
    if (comm_sum(caller->comm, caller->details != NULL) > 0)
        report_print_ranks(caller->details, &e->run);
}

/* Collective.  The attempt is complete and durable. */
static void finish_attempt(struct execution *e)
{
    const struct comm *comm = e->caller->comm;
    const struct attempt *a = &e->outlook->first;
    const struct check *check = &e->run.check;
    struct progress *progress = &e->job->progress;
    struct saved all = {.supers = schedule_supers(&a->plan), .findings = check->verdict.findings};
    findings_merge(&all.findings, &e->run.normal.check.verdict.findings);
    all.findings.not_judged += c_file_not_judged(&e->run.c);
    for (int i = 0; i < ROW_GROUPS; i++)
        all.checksums.sums[i] = comm_sum(comm, e->run.c.written[i]);
    findings_gather(comm, &all.findings);
    if (problem_is_triangle(&a->problem) && comm_sum(comm, (uint64_t)check->verdict.failures) > 0)
        all.findings = (struct findings){0}; /* all of it is multiplied again */
    advance(e, &all, progress);
    if (progress->left.count == 0)
        ticker_end(&e->ticker);
    phase_end();
    report_attempt(e);
    e->record->page.end = clock_now();
    requeue_failed(e);
}

/* The attempt that is open begins. */
static void begin_attempt(struct execution *e)
{
    const struct attempt *a = &e->outlook->first;
    const struct plan *plan = &a->plan;
    const struct work *left = &e->before.left;
    report_plan(plan, a->predicted.wall_s, &e->record->report);
    if (e->caller->options->files.html[0])
        tile_map_begin(&e->record->page.map, &a->problem, plan, left->count);
    ticker_begin(&e->ticker, work_done(left, &e->job->problem),
                 (uint64_t)(ceil_div(a->problem.m, plan->tile_rows) *
                            ceil_div(a->problem.n, plan->tile_cols) * plan->layers));
    e->started = clock_now();
    if (e->record->began == 0)
        e->record->began = e->started;
}

/* Collective.  Multiply the first of the pieces that are left, which is planned. */
static int attempt_piece(struct execution *e)
{
    struct comm *comm = e->caller->comm;
    if (hash_halves(e) || fit_sums(e) || split_piece(e) || open_attempt(e))
        return e->err->code;
    begin_attempt(e);
    run_execute(&e->run, e->err);
    if (e->err->code > 0 && e->err->code != EXIT_STOPPED)
        comm_raise(comm);
    const bool gathered = e->run.lines.census && comm_agree(comm, e->err) == 0;
    if (gathered)
        job_end_statistics(e->caller, e->job, e->run.lines.again);
    if (comm_agree(comm, e->err) == 0 && !e->run.lines.again)
        finish_attempt(e);
    else if (e->err->code == EXIT_STOPPED || e->run.lines.again)
        report_attempt(e);
    phase_begin("closing files, freeing memory", 0);
    run_close(&e->run);
    phase_end();
    return e->err->code;
}

/* Collective.  An attempt after the other, until nothing is left. */
static void attempt_all(struct execution *e)
{
    const struct options *o = e->caller->options;
    const struct work *left = &e->job->progress.left;
    while (left->count > 0 && attempt_piece(e) == 0)
        if (left->count > 0)
            plan_again(e);
    if (o->files.trace[0] && !e->err->code) {
        phase_begin("writing the trace", 0);
        trace_write(&e->trace, e->caller->comm, o->files.trace, &e->record->trace_error);
    }
}

int job_run(const struct caller *caller, const struct hardware *hardware, struct job *job,
            struct outlook *outlook, struct record *record, struct error *err)
{
    const struct options *o = caller->options;
    const struct problem *p = &job->problem;
    struct execution e = {
        .caller = caller,
        .hardware = hardware,
        .job = job,
        .outlook = outlook,
        .record = record,
        .err = err,
        .ticker = {.flops = problem_reads_ab(p) ? 2 * problem_products(p) * (double)p->k : 0,
                   .tail_s = attempt_save_seconds(&outlook->first, &hardware->machine),
                   .gpu = hardware->machine.gpu}};
    if (o->files.trace[0] || o->files.html[0]) {
        comm_barrier(caller->comm); /* the times of all ranks begin together */
        trace_open(&e.trace, hardware->device, o->files.trace[0],
                   o->files.html[0] ? &record->page.timeline : NULL, err);
    }
    if (comm_agree(caller->comm, err) == 0) {
        job->safe_s = clock_now();
        job->durable = job->progress.left;
        attempt_all(&e);
    }
    run_close(&e.run);
    trace_close(&e.trace); /* which the run's threads write to until then */
    return job_check_operands(caller, job, err);
}
