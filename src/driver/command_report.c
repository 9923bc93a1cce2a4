/* What is printed of an invocation: at its begin; and at its end as lines, a page and a file. */
#include <stdio.h>
#include <time.h>

#include "atomic_file.h"
#include "command.h"
#include "device.h"
#include "error.h"
#include "file.h"
#include "notice.h"
#include "output_check.h"
#include "plan_print.h"
#include "quantity.h"
#include "screen.h"
#include "version.h"

enum { STOP_SECONDS = 30 }; /* that a launcher may be expected to wait */

static struct account make_account(const struct invocation *c, const struct error *err)
{
    const struct plan *plan = &c->outlook.first.plan;
    const struct machine *machine = &c->hardware.machine;
    const struct job *job = &c->job;
    return (struct account){.command = c->text,
                            .err = err,
                            .ending = c->options.dry_run      ? "simulated"
                                      : c->options.check_only ? "checked"
                                                              : "complete",
                            .done = c->done,
                            .verdict = c->exit_code,
                            .report = &c->record.report,
                            .predicted = c->outlook.all.pieces > 0 ? &c->outlook.all : NULL,
                            .problem = job->described ? &job->problem : NULL,
                            .statistics = job->statistics.known ? &job->statistics : NULL,
                            .output = &c->options.output,
                            .machine = machine->ranks > 0 ? machine : NULL,
                            .plan = plan->grid_rows > 0 ? plan : NULL,
                            .placements = c->hardware.placements};
}

/* What advice on the planned attempt depends on, which may be at work or over. */
static struct advice make_advice(const struct invocation *c)
{
    const struct attempt *attempt = &c->outlook.first;
    const struct hardware *h = &c->hardware;
    return (struct advice){.problem = &attempt->problem,
                           .machine = &h->machine,
                           .request = &attempt->request,
                           .predicted = &attempt->predicted,
                           .placements = h->placements,
                           .computers = c->comm.computers,
                           .gpus = h->gpu >= 0 ? device_gpu_count() : 0};
}

/* What is to be done now, where anything is left. */
static void print_plan(const struct invocation *c)
{
    const struct machine *machine = &c->hardware.machine;
    const double stop_s = attempt_stop_seconds(&c->outlook.first, machine);
    if (c->options.show.verbose) {
        plan_print(c->out, &c->job.problem, machine, &c->outlook.first.plan,
                   c->job.progress.left.count);
        simulate_print_time(c->out, &c->outlook.all, machine->gpu);
    }
    if (stop_s > STOP_SECONDS)
        fprintf(c->out,
                "Note        a stop takes about %s: send the stop signal at least that long "
                "before the job ends\n",
                quantity_time(stop_s));
    if (c->options.show.verbose && c->options.saving.max_s > 0)
        fprintf(c->out,
                "Time limit  %s (--max-time): the run saves a checkpoint and stops before this\n",
                quantity_time(c->options.saving.max_s));
}

/* What this is, for a log. */
static void print_heading(const struct invocation *c)
{
    char date[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S %z", localtime_r(&now, &local));
    fprintf(c->out, "dgemm_ooc   %s\nCommand     %s\nStarted     %s\n", version_text(), c->text,
            date);
    fprintf(c->out, "Output      %s:%s\n", c->options.output.file, c->options.output.dataset);
}

/* In a few lines. */
static void print_few(const struct invocation *c)
{
    const struct error none = {0};
    const struct account account = make_account(c, &none);
    screen_begin(c->out, &account);
}

static void print_header(const struct invocation *c)
{
    const struct progress *progress = &c->job.progress;
    if (c->options.show.verbose)
        print_heading(c);
    else
        print_few(c);
    if (progress->left.count > 0)
        print_plan(c);
    if (progress->saved)
        fprintf(c->out, "Restart     %.1f %% is done, in %s; %d piece%s left\n",
                100 * work_done(&progress->left, &c->job.problem), quantity_time(progress->seconds),
                progress->left.count, progress->left.count == 1 ? "" : "s");
    fflush(c->out);
}

void command_warn_of_memory(const struct invocation *c, int local_ranks)
{
    const struct plan *plan = &c->outlook.first.plan;
    const double wanted = (double)plan->host_bytes * local_ranks;
    const double available = (double)machine_host_memory();
    if (plan->grid_rows > 0 && wanted > available)
        notice("the plan takes %s of host memory on this computer, where %s are available "
               "now: the run may be killed; lower --host-memory, which is per rank",
               quantity_bytes(wanted), quantity_bytes(available));
}

void command_print_begin(const struct invocation *c)
{
    if (!c->options.show.quiet)
        print_header(c);
    command_warn_of_memory(c, c->comm.local_size);
}

void command_print_places(const struct invocation *c)
{
    const struct placement *placements = c->hardware.placements;
    const struct advice advice = make_advice(c);
    if (!placements || c->options.show.quiet)
        return;
    if (c->options.show.verbose)
        placement_print(c->out, placements, c->comm.size);
    if (c->job.progress.left.count > 0)
        advice_print(&advice, c->out);
}

/* Rank 0: print what the run did, all of it where that is asked for; before the result. */
static void print_end(struct invocation *c)
{
    struct report *r = &c->record.report;
    const struct attempt *a = &c->outlook.first;
    const struct account account = make_account(c, &c->err);
    const bool only = r->planned.pieces == 1 && !c->job.resumed;
    if (r->wall_s > 0)
        advice_after(&a->problem, only ? &a->plan : NULL, c->hardware.machine.gpu, r);
    if (c->options.show.quiet)
        return;
    if (r->wall_s > 0)
        report_warn_of_running_sums(r, &c->job.problem);
    if (c->options.show.verbose && r->wall_s > 0)
        report_print(c->out, r, &c->job.problem, &c->hardware.machine, &a->plan);
    if (c->options.show.verbose && r->full.judged)
        report_full_check(c->out, &r->full);
    screen_end(c->out, &account);
}

void command_print_stopped(struct invocation *c)
{
    if (c->err.code == EXIT_STOPPED && c->record.report.wall_s > 0)
        print_end(c);
}

void command_warn_unwritten(const char *what, const char *path)
{
    if (path[0])
        notice("the %s %s is not written, since nothing was multiplied; --force multiplies "
               "again",
               what, path);
}

/* Collective.  Write the page; that it cannot be written is an error like others. */
static void write_page(struct invocation *c)
{
    struct error of_page = {0};
    const struct account account = make_account(c, &c->err);
    const char *path = c->options.files.html;
    const bool speaks = c->comm.rank == 0;
    if (c->record.report.planned.pieces == 0) { /* an earlier run has multiplied all */
        if (speaks)
            command_warn_unwritten("page", path);
        return;
    }
    page_write(&c->record.page, &account, &c->comm, path, &of_page);
    if (of_page.code && speaks)
        error_append(&c->err, &of_page);
    else if (speaks && c->options.show.verbose)
        fprintf(c->out, "Page        %s\n", path);
}

int command_print_report(struct invocation *c)
{
    const struct report *r = &c->record.report;
    const struct error *of_trace = &c->record.trace_error;
    const bool speaks = c->comm.rank == 0;
    c->exit_code = report_verdict(r);
    c->done = 1;
    if (speaks) {
        print_end(c);
        error_append(&c->err, of_trace);
    }
    if (c->options.files.html[0])
        write_page(c);
    if (speaks) {
        report_print_result(c->out, r, &c->job.problem);
        if (fflush(c->out) || ferror(c->out))
            error_add(&c->err, EXIT_RUNTIME, "cannot write to standard output; C is complete");
    }
    return comm_agree(&c->comm, &c->err);
}

/* Whether the report may replace what has its name: an earlier one.  A run that has failed has said
 * why not. */
static bool may_report(struct invocation *c)
{
    const struct problem *known = c->job.described ? &c->job.problem : NULL;
    struct error why = {0};
    if (!c->options.files.report[0])
        return false;
    output_check_beside(&c->names, &c->options, known, &why);
    if (!c->err.code)
        error_append(&c->err, &why);
    return why.code == 0;
}

void command_report(struct invocation *c)
{
    const struct error before = c->err;
    const struct account account = make_account(c, &before);
    if (may_report(c))
        report_write(c->options.files.report, &account, &c->err);
}

json_t *command_account(const struct invocation *c)
{
    const struct account account = make_account(c, &c->err);
    return report_json(&account);
}

int command_show_report(const struct options *options, struct error *err)
{
    static const struct file_names none;
    if (file_is_same(options->files.from_report, options->files.html, err))
        error_add(err, EXIT_INPUT, "the page %s is the report", options->files.html);
    if (output_check_beside(&none, options, NULL, err) == 0)
        page_write_saved(options->files.from_report, options->files.html, err);
    notice_error(err);
    return err->code;
}
