/* The work: piece after piece of what is left, saved now and then. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "meter.h"
#include "quantity.h"
#include "schedule.h"
#include "session.h"

double session_save_seconds(const struct session *s)
{
    const struct plan *plan = &s->plan;
    double tiles = (double)plan->grid_rows * plan->grid_cols * plan->layers;
    return tiles * (double)(plan->tile_rows * plan->tile_cols) *
           (double)scalar_size(s->problem.type) / s->machine.disk_write_bytes_per_s;
}

int session_open_output(struct session *s)
{
    const struct options *o = &s->options;
    bool again = s->progress.saved;
    stop_begin(s->started, o->max_s, o->checkpoint_s, session_save_seconds(s));
    if (s->comm.rank == 0 && journal_open(&s->journal, again, &s->err) == 0)
        output_create(&s->output, o, &s->problem, s->identity, s->plan.layers, again, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    comm_share(&s->output.info, sizeof s->output.info, 0);
    return 0;
}

/* All ranks have saved: what is left now is known, and rank 0 writes it down. */
static int when_saved(void *context, const struct saved *saved, struct error *err)
{
    struct session *s = context;
    struct progress *now = &s->progress;
    ticker_hide(&s->ticker);
    if (saved->note[0])
        fprintf(stderr,
                "dgemm_ooc: cannot save the sums at work in %s; only what is complete is saved\n",
                saved->note);
    bool nothing = saved->supers == 0 && saved->piece.k == 0;
    struct work left = s->begun.left;
    if (nothing || !work_advance(&left, &s->plan, saved->supers, &saved->piece))
        return 0; /* what was saved before stays as it is */
    *now = s->begun;
    now->left = left;
    now->checksum += saved->checksum;
    now->residual = fmax(now->residual, saved->residual);
    now->not_finite += saved->not_finite;
    now->seconds += clock_now() - s->piece_started;
    now->layers = s->plan.layers;
    now->saved = true;
    if (s->comm.rank > 0)
        return 0;
    output_keep();
    if (!s->options.quiet)
        printf("Saved       %.1f %% is done\n", 100 * work_done(&now->left, &s->problem));
    return journal_save(&s->journal, now, err);
}

static void when_met(void *context, const struct tally *all)
{
    struct session *s = context;
    ticker_tell(&s->ticker, all);
}

static int open_run(struct session *s)
{
    comm_form_layers(&s->comm, s->plan.layers, s->plan.ranks_per_node);
    s->part = plan_layer_problem(&s->piece, &s->plan, s->comm.layer);
    s->part_plan = plan_layer(&s->plan, &s->part);
    s->progress.layers = s->plan.layers;
    s->begun = s->progress;
    s->run = (struct run){.problem = &s->part,
                          .plan = &s->part_plan,
                          .request = &s->request,
                          .output_info = &s->output.info,
                          .comm = &s->comm,
                          .device = s->device,
                          .trace = &s->trace,
                          .map = s->request.page ? &s->page.tiles : NULL,
                          .piece = &s->begun.left.pieces[0],
                          .saver = {.done = when_saved, .met = when_met, .context = s}};
    if (s->request.page)
        tiles_begin(&s->page.tiles, &s->piece, &s->plan, s->begun.left.count);
    report_plan(&s->plan, &s->report);
    run_open(&s->run, &s->err);
    return comm_agree(&s->comm, &s->err);
}

/* Read all matrices back, with the pipeline's memory given back.  What is multiplied is saved
 * before, and given up when it is found to be wrong. */
static int read_back(struct session *s)
{
    struct verify *full = &s->report.full;
    s->progress.saved = true;
    if (s->comm.rank == 0 && journal_save(&s->journal, &s->progress, &s->err) == 0)
        output_keep();
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    *full = (struct verify){.has_expected = true, .expected = s->report.checksum};
    verify_files(&s->problem, &s->output.info, &s->machine, &s->comm, full, &s->err);
    s->journal.saved &= s->err.code != EXIT_VERIFY;
    return s->err.code;
}

struct failures {
    int count;
    struct block tiles[CHECK_AGAIN_MAX];
    double residual;
    char device[96];
};

/* Tiles that failed their check are left to be done, once more. */
static int note_failures(struct session *s)
{
    const struct check *check = &s->run.check;
    struct progress *now = &s->progress;
    bool any = comm_sum((uint64_t)check->failures) > 0;
    for (int rank = 0; rank < s->comm.size && any; rank++) {
        struct failures f = {.count = check->failures, .residual = check->failed_residual};
        memcpy(f.tiles, check->failed, sizeof f.tiles);
        snprintf(f.device, sizeof f.device, "%s", s->device->info.name);
        comm_share(&f, sizeof f, rank);
        for (int i = 0; i < f.count; i++) {
            uint64_t sum;
            if (s->comm.rank == 0)
                fprintf(stderr,
                        "dgemm_ooc: rank %d (%s): the tile of C at (%" PRId64 ", %" PRId64
                        ") failed its check, residual %.3g, limit %.3g; it is multiplied again\n",
                        rank, f.device, f.tiles[i].row, f.tiles[i].col, f.residual, check->limit);
            if (!save_sum(&s->problem, &s->output.info, &f.tiles[i], &s->comm, &sum, &s->err))
                error_add(&s->err, EXIT_RUNTIME, "C cannot be read back");
            else if (!work_again(&now->left, &f.tiles[i]))
                error_add(&s->err, EXIT_VERIFY, "too many tiles failed their check");
            now->checksum -= sum;
        }
    }
    return comm_agree(&s->comm, &s->err);
}

/* Collective.  What the run of a piece did. */
static void account(struct session *s)
{
    const struct algorithm_info *algorithm = algorithm_of(s->algorithm);
    struct report *r = &s->report;
    r->checked = s->request.verify;
    r->same_bits = algorithm->same_bits;
    snprintf(r->algorithm, sizeof r->algorithm, "%s", algorithm->name);
    r->wall_s += clock_now() - s->piece_started;
    report_gather(&s->run, r);
    if (s->options.verbose && !s->options.quiet)
        report_print_ranks(&s->run);
}

/* The piece is complete and durable. */
static int piece_end(struct session *s)
{
    const struct piece none = {0};
    struct progress *now = &s->progress;
    *now = s->begun;
    work_advance(&now->left, &s->plan, schedule_supers(&s->plan), &none);
    now->checksum += comm_sum(s->run.checksum_written);
    now->seconds += clock_now() - s->piece_started;
    now->not_finite += (int64_t)comm_sum((uint64_t)s->run.check.not_finite);
    account(s);
    now->residual = fmax(now->residual, s->report.residual);
    if (s->request.page)
        page_end(&s->page);
    return note_failures(s);
}

/* Whether the file of a piece's saved sums is there, as long as it must be. */
static bool sums_are_there(struct session *s, const struct piece *piece, struct matrix_info *info)
{
    struct stat status;
    bool there = save_name(&s->output.info, piece->place, info, &s->err) == 0 &&
                 stat(info->file, &status) == 0 && (uint64_t)status.st_size == info->file_bytes;
    return comm_min(there);
}

/* What was saved of the first piece may have been damaged since. */
static int piece_check(struct session *s)
{
    struct piece *piece = &s->progress.left.pieces[0];
    struct matrix_info info;
    uint64_t sum = piece->sum;
    if (piece->k == 0)
        return 0;
    bool whole = sums_are_there(s, piece, &info);
    if (whole && piece->hashed)
        whole = save_sum(&s->problem, &info, &piece->block, &s->comm, &sum, &s->err) &&
                sum == piece->sum;
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    if (!whole && s->comm.rank == 0)
        fprintf(stderr,
                "dgemm_ooc: what was saved of C from row %" PRId64 ", column %" PRId64
                " on is damaged; it is multiplied again\n",
                piece->block.row, piece->block.col);
    if (!whole) {
        piece->k = 0;
        session_plan(s);
    }
    return 0;
}

/* Sums that were saved by ranks with more memory: of one super-block at a time, each with a hash of
 * its own. */
static int piece_split(struct session *s)
{
    struct work *left = &s->progress.left;
    while (left->pieces[0].k > 0 && schedule_supers(&s->plan) > 1) {
        int others = left->count - 1;
        struct matrix_info info;
        if (!work_split(left, &s->plan))
            left->pieces[0].k = 0;
        if (save_name(&s->output.info, left->pieces[0].place, &info, &s->err))
            return s->err.code;
        for (int i = 0; i < left->count - others && s->request.verify; i++)
            left->pieces[i].hashed = save_sum(&s->problem, &info, &left->pieces[i].block, &s->comm,
                                              &left->pieces[i].sum, &s->err);
        session_plan(s);
        if (comm_agree(&s->comm, &s->err))
            return s->err.code;
    }
    return 0;
}

/* Multiply the first of the pieces that are left, which is planned. */
static int execute(struct session *s)
{
    if (piece_check(s))
        return s->err.code;
    if (comm_agree(&s->comm, &s->err) || piece_split(s) || open_run(s))
        return s->err.code;
    const struct plan *plan = &s->plan;
    ticker_begin(&s->ticker, work_done(&s->begun.left, &s->problem),
                 (uint64_t)(ceil_div(s->piece.m, plan->tile_rows) *
                            ceil_div(s->piece.n, plan->tile_cols) * plan->layers));
    s->piece_started = clock_now();
    if (s->report.startup_s == 0)
        s->report.startup_s = s->piece_started - s->started;
    run_execute(&s->run, &s->err);
    if (s->err.code > 0 && s->err.code != EXIT_STOPPED)
        comm_raise(&s->comm);
    ticker_hide(&s->ticker);
    if (comm_agree(&s->comm, &s->err) == 0)
        piece_end(s);
    else if (s->err.code == EXIT_STOPPED)
        account(s);
    run_close(&s->run);
    return s->err.code;
}

/* All pieces, on one timeline. */
static int execute_all(struct session *s)
{
    const struct problem *p = &s->problem;
    bool spans = s->request.trace;
    struct timeline *timeline = s->request.page ? &s->page.timeline : NULL;
    if (spans || timeline)
        trace_open(&s->trace, s->device, spans, timeline, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    if (s->comm.rank == 0)
        ticker_open(&s->ticker, s->options.progress, s->options.quiet,
                    problem_reads_ab(p) ? 2 * (double)p->m * (double)p->n * (double)p->k : 0,
                    session_save_seconds(s));
    while (s->progress.left.count > 0) {
        if (execute(s))
            return s->err.code;
        if (s->progress.left.count > 0)
            session_plan(s);
    }
    if (spans)
        trace_write(&s->trace, &s->comm, s->options.trace, &s->of_trace);
    trace_close(&s->trace);
    return 0;
}

int session_execute(struct session *s)
{
    double residual = s->progress.residual;
    if (execute_all(s))
        return s->err.code;
    s->report.residual = fmax(residual, s->report.residual);
    s->report.not_finite = (double)s->progress.not_finite;
    s->report.checksum = s->progress.checksum;
    s->report.complete = true;
    if (s->report.planned.pieces == 0 && s->options.verify != VERIFY_OFF) {
        s->report.checked = true; /* by the run that multiplied all, and then read it back */
        s->report.residual_limit = check_limit(&s->problem);
    }
    if (s->comm.rank == 0 && s->request.verify)
        output_record(&s->output, s->report.checksum, &s->err);
    if (comm_agree(&s->comm, &s->err) || (s->options.verify == VERIFY_FULL && read_back(s)))
        return s->err.code;
    if (s->comm.rank == 0)
        output_finish(&s->output, &s->options, &s->err);
    s->complete = comm_agree(&s->comm, &s->err) == 0;
    return s->err.code;
}

static void remove_sums(const struct session *s)
{
    struct matrix_info sums;
    struct error ignored = {0};
    for (int i = 0; i < PLACES; i++)
        if (save_name(&s->output.info, i, &sums, &ignored) == 0)
            unlink(sums.file);
}

void session_leave(struct session *s)
{
    bool stays = s->err.code && s->journal.saved && !s->complete;
    if (s->output.info.file[0] && !stays)
        remove_sums(s);
    if (s->err.code && !stays)
        output_drop(&s->output);
    journal_close(&s->journal, stays);
    s->done = s->complete ? 1 : stays ? work_done(&s->progress.left, &s->problem) : 0;
    if (s->err.code == EXIT_STOPPED)
        stays ? error_add(&s->err, EXIT_STOPPED,
                          "stopped by %s with %.1f %% done; the same command goes on from there",
                          stop_reason(), 100 * s->done)
              : error_add(&s->err, EXIT_STOPPED, "stopped by %s before there was anything to save",
                          stop_reason());
}

/* A run that was killed as soon as the output was complete may have left the rest. */
void session_say_complete(struct session *s)
{
    const struct options *o = &s->options;
    output_part(o, s->output.info.file);
    if (!output_is_there(o)) { /* else it is of a run that was to replace this output */
        if (journal_open(&s->journal, true, &(struct error){0}) == 0)
            remove_sums(s);
        journal_close(&s->journal, false);
    }
    s->done = 1;
    printf("RESULT: C complete: %s:%s was made from these operands already\n", o->output.file,
           o->output.dataset);
}
