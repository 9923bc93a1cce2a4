/* The reports at the end of an invocation: on the terminal, as a page and as a file. */
#include <stdio.h>

#include "atomic_file.h"
#include "device.h"
#include "error.h"
#include "faster.h"
#include "file.h"
#include "output_check.h"
#include "screen.h"
#include "session.h"

static struct account make_account(const struct session *s, const struct error *err)
{
    const struct record *r = &s->record;
    const struct attempt *a = &s->attempt;
    const struct hardware *h = &s->hardware;
    return (struct account){.command = r->command,
                            .err = err,
                            .ending = s->options.dry_run      ? "simulated"
                                      : s->options.check_only ? "checked"
                                                              : "complete",
                            .done = r->done,
                            .verdict = r->exit_code,
                            .report = &r->report,
                            .predicted = r->predicted.pieces > 0 ? &r->predicted : NULL,
                            .problem = s->described ? &s->problem : NULL,
                            .statistics = s->statistics.seconds > 0 ? &s->statistics : NULL,
                            .output = &s->options.output,
                            .machine = h->machine.ranks > 0 ? &h->machine : NULL,
                            .plan = a->plan.grid_rows > 0 ? &a->plan : NULL,
                            .placements = h->placements};
}

struct advice session_advice(const struct session *s)
{
    const struct attempt *attempt = &s->attempt;
    const struct hardware *h = &s->hardware;
    return (struct advice){.problem = &attempt->problem,
                           .machine = &h->machine,
                           .request = &attempt->request,
                           .predicted = &attempt->predicted,
                           .placements = h->placements,
                           .computers = s->comm.computers,
                           .gpus = h->gpu >= 0 ? device_gpu_count() : 0};
}

void session_print_begin(const struct session *s)
{
    const struct error none = {0};
    const struct account account = make_account(s, &none);
    screen_begin(s->out, &account);
}

/* Rank 0: print what the run did, all of it where that is asked for; before the result. */
static void print_end(struct session *s)
{
    struct report *r = &s->record.report;
    const struct attempt *a = &s->attempt;
    const struct account account = make_account(s, &s->err);
    const struct advice advice = session_advice(s);
    if (r->wall_s > 0)
        faster_advise(&advice, &a->plan, r->planned.pieces == 1 && !s->resumed, r);
    if (s->options.quiet)
        return;
    if (r->wall_s > 0)
        report_warn_of_running_sums(r, &s->problem);
    if (s->options.verbose && r->wall_s > 0)
        report_print(s->out, r, &s->problem, &s->hardware.machine, &a->plan);
    if (s->options.verbose && r->full.judged)
        report_full_check(s->out, &r->full);
    screen_end(s->out, &account);
}

void session_print_stopped(struct session *s)
{
    if (s->err.code == EXIT_STOPPED && s->record.report.wall_s > 0)
        print_end(s);
}

void session_warn_unwritten(const char *what, const char *path)
{
    if (path[0])
        fprintf(stderr,
                "dgemm_ooc: the %s %s is not written, since nothing was multiplied; --force "
                "multiplies again\n",
                what, path);
}

/* Collective.  Write the page; that it cannot be written is an error like others. */
static void write_page(struct session *s)
{
    struct error of_page = {0};
    const struct account account = make_account(s, &s->err);
    const char *path = s->options.html;
    const bool speaks = s->comm.rank == 0;
    if (s->record.report.planned.pieces == 0) { /* an earlier run has multiplied all */
        if (speaks)
            session_warn_unwritten("page", path);
        return;
    }
    page_write(&s->record.page, &account, &s->comm, path, &of_page);
    if (of_page.code && speaks)
        error_append(&s->err, &of_page);
    else if (speaks && s->options.verbose)
        fprintf(s->out, "Page        %s\n", path);
}

int session_print_report(struct session *s)
{
    const struct report *r = &s->record.report;
    const struct error *of_trace = &s->record.trace_error;
    const bool speaks = s->comm.rank == 0;
    s->record.exit_code = report_verdict(r);
    s->record.done = 1;
    if (speaks) {
        print_end(s);
        error_append(&s->err, of_trace);
    }
    if (s->options.html[0])
        write_page(s);
    if (speaks) {
        report_print_result(s->out, r, &s->problem);
        if (fflush(s->out) || ferror(s->out))
            error_add(&s->err, EXIT_RUNTIME, "cannot write to standard output; C is complete");
    }
    return comm_agree(&s->comm, &s->err);
}

/* Whether the report may replace what has its name: an earlier one.  A run that has failed has said
 * why not. */
static bool may_report(struct session *s)
{
    const struct problem *known = s->described ? &s->problem : NULL;
    struct error why = {0};
    if (!s->options.report[0])
        return false;
    output_check_beside(&s->output.names, &s->options, known, &why);
    if (!s->err.code)
        error_append(&s->err, &why);
    return why.code == 0;
}

void session_report(struct session *s)
{
    const struct error before = s->err;
    const struct account account = make_account(s, &before);
    if (may_report(s))
        report_write(s->options.report, &account, &s->err);
    error_print(&s->err, "dgemm_ooc");
}

int session_show_report(const struct options *options, struct error *err)
{
    static const struct file_names none;
    if (file_is_same(options->from_report, options->html, err))
        error_add(err, EXIT_INPUT, "the page %s is the report", options->html);
    if (output_check_beside(&none, options, NULL, err) == 0)
        page_write_saved(options->from_report, options->html, err);
    error_print(err, "dgemm_ooc");
    return err->code;
}
