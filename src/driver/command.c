/* One invocation: the steps of job.h, one after the other. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "meter.h"
#include "phase.h"
#include "stop.h"

char *command_join(int count, char *const *words, struct error *err)
{
    size_t bytes = 1;
    for (int i = 0; i < count; i++)
        bytes += strlen(words[i]) + 1;
    char *command = calloc(1, bytes), *end = command;
    for (int i = 0; i < count && command; i++)
        end += sprintf(end, "%s%s", i ? " " : "", words[i]);
    if (command)
        error_make_plain(command);
    else
        error_no_memory(err, "the command line");
    return command;
}

/* A step of the start ends now, which began when the one before ended. */
static int end_step(struct invocation *c, enum startup step)
{
    const double now = clock_now();
    c->record.report.startup[step] += now - c->step_ended;
    c->step_ended = now;
    return c->err.code;
}

static void print_operands(FILE *out, const struct problem *p)
{
    const struct source *a = &p->sources[OPERAND_A], *b = &p->sources[OPERAND_B];
    fprintf(out, "Operands    A = %s:%s, B = %s:%s\n", a->file, a->dataset, b->file, b->dataset);
}

/* --check-only: an existing output is checked against its operands. */
static int check_output(struct invocation *c)
{
    struct verify *found = &c->record.report.full;
    if (job_check(&c->caller, &c->hardware, &c->job, found, &c->err))
        return c->err.code;
    c->done = 1;
    if (c->comm.rank == 0) {
        if (!c->options.show.quiet) {
            print_operands(c->out, &c->job.problem);
            report_full_check(c->out, found);
        }
        c->exit_code = report_check_result(c->out, found, &c->job.problem);
    }
    return comm_agree(&c->comm, &c->err);
}

/* The output was complete before this run: say so, and check it where --verify full asks for
 * that. */
static int find_complete(struct invocation *c)
{
    struct options *o = &c->options;
    o->check_only = o->check.verify == VERIFY_FULL;
    o->given.a = o->given.b = o->given.c =
        true; /* these operands, wherever C says that they were */
    c->done = 1;
    if (c->comm.rank == 0) {
        job_remove_rest(&c->job);
        command_warn_unwritten("page", o->files.html);
        command_warn_unwritten("trace", o->files.trace);
    }
    if (o->check_only)
        caller_print(c->caller.notes,
                     "Note        %s:%s was made from these operands already; it is checked\n",
                     o->output.file, o->output.dataset);
    else if (c->comm.rank == 0)
        fprintf(c->out, "RESULT: C complete: %s:%s was made from these operands already\n",
                o->output.file, o->output.dataset);
    job_close(&c->job);
    return o->check_only ? check_output(c) : 0;
}

/* Collective.  Find everything that can be wrong before the work starts, and plan. */
static int prepare(struct invocation *c)
{
    const struct caller *caller = &c->caller;
    hardware_find(caller, &c->hardware, &c->err);
    end_step(c, STARTUP_DEVICE);
    job_open(caller, &c->job, &c->err);
    end_step(c, STARTUP_OPERANDS);
    if (c->job.described)
        hardware_probe(caller, &c->job.problem, &c->hardware);
    end_step(c, STARTUP_PROBE);
    job_plan(caller, &c->hardware.machine, &c->job, &c->outlook, &c->err);
    return end_step(c, STARTUP_PLAN);
}

/* Collective.  From now on a stop is asked for, and not the end of the process.  The device is
 * opened for what is left, which is known when what was saved has been compared. */
static int begin(struct invocation *c)
{
    const struct caller *caller = &c->caller;
    const struct machine *machine = &c->hardware.machine;
    const struct attempt *first = &c->outlook.first;
    stop_begin(c->started, c->options.saving.max_s, c->options.saving.checkpoint_s,
               attempt_stop_seconds(first, machine));
    job_resume(caller, machine, &c->job, &c->outlook, &c->record.report, &c->err);
    if (end_step(c, STARTUP_OUTPUT))
        return c->err.code;
    hardware_open(caller, &c->hardware, first->request.algorithm, first->plan.compute_threads,
                  &c->err);
    command_print_places(c);
    if (end_step(c, STARTUP_DEVICE))
        return c->err.code;
    job_begin(caller, machine, &c->job, &c->outlook, &c->err);
    return end_step(c, STARTUP_OUTPUT);
}

/* Collective.  Multiply all that is left, and publish C. */
static int work(struct invocation *c)
{
    struct report *report = &c->record.report;
    job_run(&c->caller, &c->hardware, &c->job, &c->outlook, &c->record, &c->err);
    const double began = c->record.began;
    if (began > 0) {
        report->startup[STARTUP_MEMORY] = began - c->step_ended;
        report->startup_s = began - c->started;
    }
    return c->err.code ? c->err.code
                       : job_publish(&c->caller, &c->hardware.machine, &c->job, report, &c->err);
}

/* Collective.  Multiply, and clean up, however that has ended. */
static void multiply(struct invocation *c)
{
    if (c->comm.rank == 0)
        command_print_begin(c);
    if (begin(c) == 0 && work(c) == 0)
        command_print_report(c);
    phase_begin("cleaning up", 0);
    if (c->comm.rank == 0) {
        c->done = job_conclude(&c->caller, &c->job, &c->err);
        command_print_stopped(c);
    }
    hardware_close(&c->hardware);
}

int command_run(struct invocation *c)
{
    if (command_agree(c))
        return c->err.code;
    end_step(c, STARTUP_RANKS);
    if (c->options.check_only)
        check_output(c);
    else if (prepare(c) == 0 && c->job.complete)
        find_complete(c);
    else if (!c->err.code)
        multiply(c);
    job_close(&c->job);
    return c->err.code;
}
