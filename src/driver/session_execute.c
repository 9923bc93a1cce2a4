/* The work: an attempt at each piece of what is left, saved now and then. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "leftovers.h"
#include "meter.h"
#include "phase.h"
#include "quantity.h"
#include "save.h"
#include "schedule.h"
#include "session.h"
#include "text.h"
#include "triangle.h"

/* The progress of the product when so much of the attempt is done.  False when what is left would
 * be too many pieces. */
static bool advance(const struct attempt *a, const struct saved *saved, struct progress *now)
{
    *now = a->before;
    for (int i = 0; i < ROW_GROUPS; i++)
        now->checksums.sums[i] += saved->checksums.sums[i];
    findings_merge(&now->findings, &saved->findings);
    now->seconds += clock_now() - a->started;
    return work_advance(&now->left, &a->plan, saved->supers, &saved->piece);
}

/* Write down what is left now.  False, with a reason, where that cannot be; it ends no run. */
static bool save_progress(struct session *s, const struct saved *saved, struct progress *now,
                          struct error *why)
{
    if (!advance(&s->attempt, saved, now)) {
        error_add(why, EXIT_RESOURCES, "the rest of C is in too many pieces for a checkpoint");
        return false;
    }
    now->saved = true;
    if (s->comm.rank > 0)
        return true;
    if (journal_save(&s->journal, now, why))
        return false;
    leftovers_keep();
    return true;
}

void session_warn_unsaved(const struct session *s, bool stops, const char *what, const char *why)
{
    const char *time = quantity_time(clock_now() - s->safe_s);
    phase_hide();
    if (stops)
        fprintf(stderr, "dgemm_ooc: %s%s; this loses the last %s\n", what, why, time);
    else
        fprintf(stderr,
                "dgemm_ooc: %s%s; the run continues, but a stop now would lose the last %s\n", what,
                why, time);
}

/* All ranks have saved: rank 0 writes down what is left now. */
static int when_saved(void *context, const struct saved *saved, bool *known, struct error *err)
{
    struct session *s = context;
    const bool speaks = s->comm.rank == 0;
    struct progress now;
    struct error why = {0};
    phase_end();
    *known = false;
    if (s->comm.local_rank == 0 && operand_state_check(&s->operands, err))
        return err->code;
    if (saved->supers > 0 || saved->piece.k > 0) {
        uint64_t lost = !save_progress(s, saved, &now, &why);
        if (!comm_vote_sum(&s->comm, &lost, 1))
            return err->code = ERROR_ELSEWHERE;
        *known = lost == 0;
    }
    if (*known) {
        s->progress = now;
        s->durable = now.left;
        s->safe_s = fmax(s->safe_s, saved->since);
    }
    if (saved->note[0])
        session_warn_unsaved(s, saved->stops, "cannot save the partial sums: ", saved->note);
    if (why.code && speaks)
        session_warn_unsaved(s, saved->stops, "", why.text);
    if (*known && speaks && s->options.verbose)
        fprintf(s->out, "Saved       %.1f %% is done\n", 100 * work_done(&now.left, &s->problem));
    return 0;
}

static int when_met(void *context, const struct run_totals *all, struct error *err)
{
    struct session *s = context;
    ticker_tell(&s->record.ticker, all);
    return s->comm.rank == 0 ? operand_state_glance(&s->operands, err) : 0;
}

/* The user who has sent the signal may be at a keyboard, and send it again. */
static void when_stopping(void *context, double stop_s)
{
    struct session *s = context;
    if (s->comm.rank > 0)
        return;
    phase_hide();
    stop_s = fmax(stop_s, attempt_stop_seconds(&s->attempt, &s->hardware.machine));
    fprintf(stderr, "dgemm_ooc: stopping (%s): %s takes %s%s", stop_reason(),
            s->attempt.plan.layers > 1 ? "this" : "the checkpoint",
            stop_s < 1 ? "less than " : "about ", stop_s < 1 ? "a second" : quantity_time(stop_s));
    if (stop_can_be_urged())
        fprintf(stderr,
                ". Signal again after 2 seconds to quit without saving; that loses the last %s",
                quantity_time(clock_now() - s->safe_s));
    fputc('\n', stderr);
}

/* Collective.  Open the run of the planned attempt. */
static int open_run(struct session *s)
{
    struct attempt *a = &s->attempt;
    comm_form_layers(&s->comm, a->plan.layers, a->plan.ranks_per_node);
    a->layer = plan_layer_problem(&a->problem, &a->plan, s->comm.layer);
    a->layer_plan = plan_layer(&a->plan, &a->layer);
    struct block tile = schedule_tile(&a->layer, &a->layer_plan, comm_place(&s->comm), 0);
    a->layer_plan.ld[OPERAND_C] = plan_tile_ld(&a->layer, &a->layer_plan, &tile);
    s->progress.layers = a->plan.layers;
    a->before = s->progress;
    a->run = (struct run){.problem = &a->layer,
                          .plan = &a->layer_plan,
                          .request = &a->request,
                          .output = &s->output.source,
                          .comm = &s->comm,
                          .device = s->hardware.device,
                          .trace = &s->record.trace,
                          .map = s->options.html[0] ? &s->record.page.map : NULL,
                          .piece = &a->before.left.pieces[0],
                          .statistics = &s->statistics,
                          .seed = s->options.check_seed,
                          .rounded = s->progress.findings.rounded,
                          .saver = {.done = when_saved,
                                    .met = when_met,
                                    .stops = when_stopping,
                                    .context = s,
                                    .names = &s->output.names,
                                    .known = &s->durable}};
    run_open(&a->run, &s->err);
    return comm_agree(&s->comm, &s->err);
}

/* The saved sums of the first piece are damaged: plan it from the beginning. */
static void discard_sums(struct session *s)
{
    struct piece *piece = &s->progress.left.pieces[0];
    phase_end();
    if (s->comm.rank == 0)
        fprintf(stderr,
                "dgemm_ooc: the saved sums of C from row %" PRId64 ", column %" PRId64
                " on are damaged; they are computed again\n",
                piece->block.row, piece->block.col);
    piece->k = 0;
    session_plan(s);
}

/* Collective.  The checksum of a block of saved sums. */
static uint64_t hash_block(struct session *s, int place, const struct block *block,
                           struct error *cannot)
{
    const struct source source = save_matrix(&s->output.source, s->output.names.sums[place]);
    const struct reading part = {&source, s->problem.held[OPERAND_C], block, 1, 1, false};
    struct row_checksums checksums;
    phase_begin("checking saved sums", (double)(block->rows * block->cols) *
                                           (double)problem_element(&s->problem, OPERAND_C));
    row_checksums_read(&part, &s->comm, &checksums, cannot);
    return row_checksums_total(&checksums);
}

/* Collective.  Compute the checksum of each of the pieces that a piece was split into, from its
 * saved sums.  False where these cannot be read, or are not together what was saved. */
static bool hash_parts(struct session *s, struct piece *parts, int count, const struct piece *whole)
{
    struct error cannot = {0};
    uint64_t total = 0;
    if (!s->attempt.request.verify)
        return true;
    for (int i = 0; i < count; i++) {
        parts[i].sum = hash_block(s, whole->place, &parts[i].block, &cannot);
        parts[i].hashed = true;
        total += parts[i].sum;
    }
    return comm_min(&s->comm, !cannot.code) && (!whole->hashed || total == whole->sum);
}

/* Collective.  Likewise, of the pieces of a triangle that was halved: the square that was saved
 * holds the mirrors of rectangles, too.  Where it is damaged, they begin anew. */
static int hash_halves(struct session *s)
{
    struct work *left = &s->progress.left;
    struct error cannot = {0};
    uint64_t total = 0, saved = 0;
    bool hashed = false, any = false;
    for (int i = 0; i < left->count && s->attempt.request.verify; i++) {
        struct piece *piece = &left->pieces[i];
        const struct block mirror = triangle_mirror(&piece->block, left->width);
        if (!piece->halved)
            continue;
        hashed = any ? hashed : piece->hashed;
        saved = any ? saved : piece->sum;
        any = true;
        piece->sum = hash_block(s, piece->place, &piece->block, &cannot);
        piece->hashed = true;
        total += piece->sum;
        if (!block_equal(&mirror, &piece->block))
            total += hash_block(s, piece->place, &mirror, &cannot);
    }
    bool whole = !any || (comm_min(&s->comm, !cannot.code) && (!hashed || total == saved));
    for (int i = 0; i < left->count; i++) {
        struct piece *piece = &left->pieces[i];
        piece->k = piece->halved && !whole ? 0 : piece->k;
        piece->halved = false;
    }
    if (!whole)
        discard_sums(s);
    return comm_agree(&s->comm, &s->err);
}

/* Collective.  Split the first piece, where sums of it were saved by ranks with more memory, until
 * it can be one super-block. */
static int split_piece(struct session *s)
{
    struct work *left = &s->progress.left;
    while (left->pieces[0].k > 0 && schedule_supers(&s->attempt.plan) > 1) {
        const struct work before = *left;
        if (work_split(left, &s->attempt.plan) &&
            hash_parts(s, left->pieces, left->count - before.count + 1, &before.pieces[0])) {
            session_plan(s);
        } else {
            *left = before;
            discard_sums(s);
        }
        if (comm_agree(&s->comm, &s->err))
            return s->err.code;
    }
    return 0;
}

/* Collective.  Open the attempt with the sums that were saved of its piece, or from the beginning
 * where these have been damaged since. */
static int open_attempt(struct session *s)
{
    struct attempt *a = &s->attempt;
    bool whole = true;
    if (open_run(s) || (a->problem.continues && save_load(&a->run, &whole, &s->err)) || whole)
        return s->err.code;
    run_close(&a->run);
    discard_sums(s);
    return comm_agree(&s->comm, &s->err) ? s->err.code : open_run(s);
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
static void requeue(struct session *s, const struct block *tile)
{
    const struct block blocks[] = {*tile, triangle_mirror(tile, problem_width(&s->problem))};
    const int count = problem_mirrors(&s->problem) && !block_equal(&blocks[0], &blocks[1]) ? 2 : 1;
    const struct reading what = {
        &s->output.source, s->problem.held[OPERAND_C], blocks, count, 1, false};
    struct progress *now = &s->progress;
    struct row_checksums checksums;
    struct error why = {0};
    if (row_checksums_read(&what, &s->comm, &checksums, &why)) /* on this rank: all go on in step */
        error_add(&s->err, EXIT_RUNTIME, "C cannot be read back: %s", why.text);
    if (!work_again(&now->left, tile))
        error_add(&s->err, EXIT_VERIFY, "too many tiles failed their check");
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

/* Collective.  Leave the tiles of the attempt that failed their check to be done once more. */
static int requeue_failed(struct session *s)
{
    const struct check *check = &s->attempt.run.check;
    bool any = comm_sum(&s->comm, (uint64_t)check->failures) > 0;
    for (int rank = 0; rank < s->comm.size && any; rank++) {
        struct failures f = {.count = check->failures, .ratio = check->failed_ratio};
        memcpy(f.tiles, check->failed, sizeof f.tiles);
        snprintf(f.device, sizeof f.device, "%s", s->hardware.device->info.name);
        comm_share(&s->comm, &f, sizeof f, rank);
        for (int i = 0; i < f.count; i++) {
            const struct problem *p = &s->attempt.problem;
            const struct block all = {p->row, p->col, p->m, p->n};
            const struct block *tile = problem_is_triangle(p) ? &all : &f.tiles[i];
            if (work_has(&s->progress.left, tile)) /* another layer's product of it failed, too */
                continue;
            phase_hide();
            if (s->comm.rank == 0)
                fprintf(stderr,
                        "dgemm_ooc: rank %d (%s): the tile of C at (%" PRId64 ", %" PRId64
                        ") failed its check: it %s; it is computed again\n",
                        rank, f.device, tile->row, tile->col, how_wrong(f.ratio));
            requeue(s, tile);
        }
    }
    return comm_agree(&s->comm, &s->err);
}

/* Collective.  Report what the attempt did. */
static void report_attempt(struct session *s)
{
    const struct attempt *a = &s->attempt;
    const struct kernel *kernel = kernels[a->request.algorithm];
    struct report *r = &s->record.report;
    r->checked = a->request.verify;
    r->same_bits = kernel->same_bits;
    snprintf(r->algorithm, sizeof r->algorithm, "%s",
             s->problem.moduli > 0 || problem_is_exact(&s->problem)
                 ? problem_kernels(&s->problem, &s->options)
                 : kernel->name);
    r->wall_s += clock_now() - a->started;
    report_gather(&a->run, r);
    if (s->options.verbose)
        report_print_ranks(s->out, &a->run);
}

/* Collective.  The attempt is complete and durable. */
static void finish_attempt(struct session *s)
{
    const struct attempt *a = &s->attempt;
    struct saved all = {.supers = schedule_supers(&a->plan), .findings = a->run.check.findings};
    for (int i = 0; i < ROW_GROUPS; i++)
        all.checksums.sums[i] = comm_sum(&s->comm, a->run.c.written[i]);
    findings_gather(&s->comm, &all.findings);
    if (problem_is_triangle(&a->problem) && comm_sum(&s->comm, (uint64_t)a->run.check.failures) > 0)
        all.findings = (struct findings){0}; /* all of it is multiplied again */
    advance(a, &all, &s->progress);
    if (s->progress.left.count == 0)
        ticker_end(&s->record.ticker);
    phase_end();
    report_attempt(s);
    s->record.page.end = clock_now();
    requeue_failed(s);
}

/* Collective.  Multiply the first of the pieces that are left, which is planned. */
static int attempt_piece(struct session *s)
{
    struct attempt *a = &s->attempt;
    struct record *record = &s->record;
    if (hash_halves(s) || split_piece(s) || open_attempt(s))
        return s->err.code;
    const struct plan *plan = &a->plan;
    report_plan(plan, a->predicted.wall_s, &record->report);
    if (s->options.html[0])
        tile_map_begin(&record->page.map, &a->problem, plan, a->before.left.count);
    ticker_begin(&record->ticker, work_done(&a->before.left, &s->problem),
                 (uint64_t)(ceil_div(a->problem.m, plan->tile_rows) *
                            ceil_div(a->problem.n, plan->tile_cols) * plan->layers));
    if (record->report.startup_s == 0) {
        session_end_startup(s, STARTUP_MEMORY);
        record->report.startup_s = s->startup_ended - s->started;
    }
    a->started = clock_now();
    run_execute(&a->run, &s->err);
    if (s->err.code > 0 && s->err.code != EXIT_STOPPED)
        comm_raise(&s->comm);
    if (comm_agree(&s->comm, &s->err) == 0)
        finish_attempt(s);
    else if (s->err.code == EXIT_STOPPED)
        report_attempt(s);
    phase_begin("closing files, freeing memory", 0);
    run_close(&a->run);
    phase_end();
    return s->err.code;
}

int session_execute(struct session *s)
{
    const struct problem *p = &s->problem;
    struct record *record = &s->record;
    const bool spans = s->options.trace[0];
    struct timeline *timeline = s->options.html[0] ? &record->page.timeline : NULL;
    if (spans || timeline) {
        comm_barrier(&s->comm); /* the times of all ranks begin together */
        trace_open(&record->trace, s->hardware.device, spans, timeline, &s->err);
    }
    if (comm_agree(&s->comm, &s->err))
        return session_check_operands(s);
    record->ticker =
        (struct ticker){.flops = problem_reads_ab(p) ? 2 * problem_products(p) * (double)p->k : 0,
                        .tail_s = attempt_save_seconds(&s->attempt, &s->hardware.machine),
                        .gpu = s->hardware.machine.gpu};
    s->safe_s = clock_now();
    s->durable = s->progress.left;
    while (s->progress.left.count > 0 && attempt_piece(s) == 0)
        if (s->progress.left.count > 0)
            session_plan(s);
    if (spans && !s->err.code)
        phase_begin("writing the trace", 0);
    if (spans && !s->err.code)
        trace_write(&record->trace, &s->comm, s->options.trace, &record->trace_error);
    if (!s->err.code)
        trace_close(&record->trace);
    return session_check_operands(s);
}
