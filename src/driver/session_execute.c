/* The work: piece after piece of what is left, saved now and then. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "leftovers.h"
#include "lock.h"
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

/* Write down what is left now; that it cannot be written is said, and ends no run. */
static bool keep(struct session *s, struct progress *now, const struct saved *saved,
                 struct error *why)
{
    *now = s->begun;
    if (!work_advance(&now->left, &s->plan, saved->supers, &saved->piece)) {
        error_add(why, EXIT_RESOURCES, "what is left is in too many pieces to be saved");
        return false;
    }
    for (int i = 0; i < BANDS; i++)
        now->bands.sums[i] += saved->bands.sums[i];
    findings_merge(&now->findings, &saved->findings);
    now->seconds += clock_now() - s->piece_started;
    now->layers = s->plan.layers;
    now->saved = true;
    if (s->comm.rank > 0)
        return true;
    leftovers_keep();
    return journal_save(&s->journal, now, why) == 0;
}

/* What could not be saved, and what that may cost. */
static void say_unsaved(const struct session *s, bool stops, const char *what, const char *why)
{
    const char *time = quantity_time(clock_now() - s->safe_s);
    if (stops)
        fprintf(stderr, "dgemm_ooc: %s%s; the last %s are lost\n", what, why, time);
    else
        fprintf(stderr,
                "dgemm_ooc: %s%s; if the run is stopped now, the last %s are lost; it continues\n",
                what, why, time);
}

/* All ranks have saved: what is left now is known, and rank 0 writes it down. */
static int when_saved(void *context, const struct saved *saved, bool *known, struct error *err)
{
    struct session *s = context;
    struct progress now;
    struct error why = {0};
    double none = 0;
    uint64_t lost = 0;
    bool nothing = saved->supers == 0 && saved->piece.k == 0;
    ticker_hide(&s->ticker);
    *known = false;
    if (s->comm.rank == 0 && operand_state_check(&s->operands, err))
        return err->code;
    if (!nothing) {
        lost = !keep(s, &now, saved, &why);
        if (!comm_meet(&s->comm, &lost, 1, &none, 1))
            return err->code = ERROR_ELSEWHERE;
        *known = lost == 0;
    }
    if (*known) {
        s->progress = now;
        s->known = now.left;
        s->safe_s = fmax(s->safe_s, saved->since);
    }
    if (saved->note[0])
        say_unsaved(s, saved->stops, "cannot save the sums at work: ", saved->note);
    if (why.code && s->comm.rank == 0)
        say_unsaved(s, saved->stops, "", why.text);
    if (*known && s->comm.rank == 0 && !s->options.quiet)
        printf("Saved       %.1f %% is done\n", 100 * work_done(&now.left, &s->problem));
    return 0;
}

static int when_met(void *context, const struct tally *all, struct error *err)
{
    struct session *s = context;
    ticker_tell(&s->ticker, all);
    return s->comm.rank == 0 ? operand_state_glance(&s->operands, err) : 0;
}

/* Whoever has asked for it may be at a keyboard, and press again. */
static void when_stopping(void *context, double save_s)
{
    struct session *s = context;
    if (s->comm.rank > 0)
        return;
    ticker_hide(&s->ticker);
    fprintf(
        stderr,
        "dgemm_ooc: stopping (%s): saving takes about %s; a second signal ends the run at once, "
        "and the last %s are lost\n",
        stop_reason(), quantity_time(fmax(save_s, session_save_seconds(s))),
        quantity_time(clock_now() - s->safe_s));
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
                          .map = s->options.html[0] ? &s->page.tiles : NULL,
                          .piece = &s->begun.left.pieces[0],
                          .seed = s->options.check_seed,
                          .saver = {.done = when_saved,
                                    .met = when_met,
                                    .stops = when_stopping,
                                    .context = s,
                                    .known = &s->known}};
    run_open(&s->run, &s->err);
    return comm_agree(&s->comm, &s->err);
}

/* Read all matrices back, with the pipeline's memory given back.  What is multiplied is saved
 * before, and given up when it is found to be wrong. */
static int read_back(struct session *s)
{
    struct verify *full = &s->report.full;
    struct error why = {0};
    s->progress.saved = true;
    if (s->comm.rank == 0 && journal_save(&s->journal, &s->progress, &why) == 0)
        leftovers_keep();
    else if (s->comm.rank == 0)
        say_unsaved(s, false, "", why.text);
    *full = (struct verify){
        .seed = s->options.check_seed, .has_expected = true, .expected = s->report.checksum};
    verify_files(&s->problem, &s->output.info, &s->machine, &s->comm, full, &s->err);
    session_check_operands(s);
    if (s->err.code == EXIT_VERIFY && s->went_on)
        error_add(&s->err, EXIT_VERIFY,
                  "an operand or C may have changed since an earlier run; what was saved is "
                  "discarded, and the same command starts again");
    s->journal.saved &= s->err.code != EXIT_VERIFY;
    return s->err.code;
}

/* Collective.  Whether all is read back: as asked for, or since several runs had a part in C.
 * Between them an operand may have changed and kept its times, by silent corruption. */
static bool reads_back(struct session *s)
{
    struct error why = {0};
    if (s->options.verify != VERIFY_ONLINE || !s->went_on || s->options.restart == RESTART_TRUST)
        return s->options.verify == VERIFY_FULL;
    bool fits = comm_sum(verify_fits(&s->problem, &s->machine, &why) != 0) == 0;
    if (s->comm.rank == 0 && !fits)
        fprintf(stderr,
                "dgemm_ooc: a change of an operand since an earlier run that kept its times is not "
                "detected: %s\n",
                why.code ? why.text : "another rank has no memory for the full check");
    if (s->comm.rank == 0 && fits && !s->options.quiet)
        printf("            several runs had a part in C: the files are read back\n");
    return fits;
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
    for (int i = 0; i < BANDS; i++)
        now->bands.sums[i] += comm_sum(s->run.c.written[i]);
    now->seconds += clock_now() - s->piece_started;
    struct findings found = s->run.check.findings;
    findings_gather(&found);
    findings_merge(&now->findings, &found);
    account(s);
    if (s->options.html[0])
        page_end(&s->page);
    return session_note_failures(s);
}

/* With the sums that were saved of it; anew, where these have been damaged since. */
static int open_whole(struct session *s)
{
    bool whole = true;
    if (open_run(s) || (s->piece.continues && save_load(&s->run, &whole, &s->err)) || whole)
        return s->err.code;
    run_close(&s->run);
    session_begin_anew(s);
    return comm_agree(&s->comm, &s->err) ? s->err.code : open_run(s);
}

/* Multiply the first of the pieces that are left, which is planned. */
static int execute(struct session *s)
{
    if (session_split(s) || open_whole(s))
        return s->err.code;
    const struct plan *plan = &s->plan;
    report_plan(plan, s->predicted.wall_s, &s->report);
    if (s->options.html[0])
        tiles_begin(&s->page.tiles, &s->piece, plan, s->begun.left.count);
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
    bool spans = s->options.trace[0];
    struct timeline *timeline = s->options.html[0] ? &s->page.timeline : NULL;
    if (spans || timeline)
        trace_open(&s->trace, s->device, spans, timeline, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    if (s->comm.rank == 0)
        ticker_open(&s->ticker, s->options.progress, s->options.quiet,
                    problem_reads_ab(p) ? 2 * (double)p->m * (double)p->n * (double)p->k : 0,
                    session_save_seconds(s));
    s->safe_s = clock_now();
    s->known = s->progress.left;
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

/* C has its checksum.  Where it cannot have its name, it stays for a run that can give it that. */
static void publish(struct session *s)
{
    struct error of_journal = {0};
    if (output_sync(&s->output, &s->err) || output_finish(&s->output, &s->options, &s->err) == 0)
        return;
    s->progress.saved = true;
    if (journal_save(&s->journal, &s->progress, &of_journal) == 0)
        leftovers_keep();
}

int session_execute(struct session *s)
{
    execute_all(s);
    if (session_check_operands(s))
        return s->err.code;
    s->report.findings = s->progress.findings; /* of all runs that had a part in it */
    s->report.checksum = bands_total(&s->progress.bands);
    s->report.complete = true;
    if (s->report.planned.pieces == 0 && s->options.verify != VERIFY_OFF)
        s->report.checked = true; /* by the run that multiplied all, and then read it back */
    if (s->comm.rank == 0 && s->request.verify)
        output_record(&s->output, s->report.checksum, &s->err);
    if (comm_agree(&s->comm, &s->err) || (reads_back(s) && read_back(s)))
        return s->err.code;
    if (s->comm.rank == 0)
        publish(s);
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
    if (s->output.info.file[0] && !stays && lock_is_held())
        remove_sums(s);
    if (s->err.code && !stays)
        output_drop(&s->output);
    journal_close(&s->journal, stays);
    s->done = s->complete ? 1 : stays ? work_done(&s->progress.left, &s->problem) : 0;
    if (s->err.code == EXIT_STOPPED)
        stays ? error_add(&s->err, EXIT_STOPPED, "stopped by %s with %.1f %% done; %s",
                          stop_reason(), 100 * s->done,
                          s->options.restart == RESTART_NEVER
                              ? "without --restart never the same command resumes from there"
                              : "the same command resumes from there")
              : error_add(&s->err, EXIT_STOPPED, "stopped by %s before there was anything to save",
                          stop_reason());
}

void session_say_unwritten(const struct session *s, const char *what, const char *path)
{
    if (path[0] && s->comm.rank == 0)
        fprintf(stderr,
                "dgemm_ooc: the %s %s is not written, since nothing was multiplied; --force "
                "multiplies again\n",
                what, path);
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
    if (o->verify != VERIFY_FULL)
        printf("RESULT: C complete: %s:%s was made from these operands already\n", o->output.file,
               o->output.dataset);
    else if (!o->quiet)
        printf("Note        %s:%s was made from these operands already; it is checked\n",
               o->output.file, o->output.dataset);
    session_say_unwritten(s, "page", o->html);
    session_say_unwritten(s, "trace", o->trace);
}
