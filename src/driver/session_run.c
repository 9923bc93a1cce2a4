/* The phases of a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "draw.h"
#include "meter.h"
#include "nodes.h"
#include "phase.h"
#include "plan_print.h"
#include "quantity.h"
#include "same_files.h"
#include "session.h"
#include "stop.h"
#include "version.h"
#include "watch.h"

enum { STOP_SECONDS = 30 }; /* that a launcher may be expected to wait */

/* What is to be done now, where anything is left. */
static void print_plan(const struct session *s)
{
    const struct machine *machine = &s->hardware.machine;
    const double stop_s = attempt_stop_seconds(&s->attempt, machine);
    if (s->options.verbose) {
        plan_print(s->out, &s->problem, machine, &s->attempt.plan, s->progress.left.count);
        simulate_print_time(s->out, &s->record.predicted, machine->gpu);
    }
    if (stop_s > STOP_SECONDS)
        fprintf(s->out,
                "Note        a stop takes about %s: send the stop signal at least that long "
                "before the job ends\n",
                quantity_time(stop_s));
    if (s->options.verbose && s->options.max_s > 0)
        fprintf(s->out,
                "Time limit  %s (--max-time): the run saves a checkpoint and stops before this\n",
                quantity_time(s->options.max_s));
}

/* What this is, for a log. */
static void print_heading(const struct session *s)
{
    char date[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S %z", localtime_r(&now, &local));
    fprintf(s->out, "dgemm_ooc   %s\nCommand     %s\nStarted     %s\n", version_text(),
            s->record.command, date);
    fprintf(s->out, "Output      %s:%s\n", s->options.output.file, s->options.output.dataset);
}

static void print_header(const struct session *s)
{
    const struct progress *progress = &s->progress;
    if (s->options.verbose)
        print_heading(s);
    else
        session_print_begin(s);
    if (progress->left.count > 0)
        print_plan(s);
    if (progress->saved)
        fprintf(s->out, "Restart     %.1f %% is done, in %s; %d piece%s left\n",
                100 * work_done(&progress->left, &s->problem), quantity_time(progress->seconds),
                progress->left.count, progress->left.count == 1 ? "" : "s");
    fflush(s->out);
}

static int open_device(struct session *s)
{
    const struct attempt *attempt = &s->attempt;
    struct hardware *h = &s->hardware;
    phase_begin("opening the device", 0);
    if (h->gpu >= 0)
        device_gpu_open(h->gpu, attempt->request.algorithm, &h->device, &s->err);
    else
        device_cpu_open(attempt->plan.compute_threads, &h->device, &s->err);
    if (h->device)
        snprintf(h->placement.device, sizeof h->placement.device, "%s", h->device->info.name);
    h->placements = placement_gather(&s->comm, &h->placement);
    phase_end();
    if (h->placements && !s->options.quiet) {
        const struct advice advice = session_advice(s);
        if (s->options.verbose)
            placement_print(s->out, h->placements, s->comm.size);
        if (s->progress.left.count > 0)
            advice_print(&advice, s->out);
    }
    return comm_agree(&s->comm, &s->err);
}

/* From now on a stop is asked for, and not the end of the process. */
static void begin_stops(const struct session *s)
{
    const struct options *o = &s->options;
    stop_begin(s->started, o->max_s, o->checkpoint_s,
               attempt_stop_seconds(&s->attempt, &s->hardware.machine));
}

/* Collective.  From now on other runs are refused this output. */
static int take_output(struct session *s)
{
    if (s->comm.rank == 0)
        journal_open(&s->journal, s->resumed, &s->err);
    return comm_agree(&s->comm, &s->err);
}

/* Collective.  What is resumed from is read by all ranks. */
static void compare_part(struct session *s)
{
    struct error why = {0};
    same_files_check_matrix(&s->output.source, &s->comm, &why);
    if (why.code == EXIT_RUNTIME)
        session_complain_unread(s, &why);
    else
        error_append(&s->err, &why);
}

/* Collective.  The output that was taken. */
static int open_output(struct session *s)
{
    const struct options *o = &s->options;
    if (s->comm.rank == 0 && journal_begin(&s->journal, &s->err) == 0) {
        struct output_attributes attributes;
        output_attributes_make(&attributes, o, &s->problem, journal_identity(&s->journal),
                               s->resumed ? s->progress.layers : s->attempt.plan.layers);
        output_create(&s->output, o, &s->problem, &attributes, s->resumed, &s->err);
    }
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    comm_share(&s->comm, &s->output.source, sizeof s->output.source, 0);
    if (s->resumed)
        compare_part(s);
    return comm_agree(&s->comm, &s->err);
}

/* Collective.  What has to be known of the elements of A and B, which is read once. */
static int read_statistics(struct session *s)
{
    if (s->problem.measures)
        return s->progress.saved ? 0 : session_measure(s);
    return session_read_statistics(s);
}

/* Rank 0: what lies beside C was written by an earlier run. */
static void compare_beside(struct session *s)
{
    if (s->resumed && output_compare_part(&s->output, &s->problem, &s->err))
        error_add(&s->err, s->err.code,
                  "what is beside C in %s was damaged or changed; give --restart never to start "
                  "from the beginning",
                  s->output.names.part);
}

/* The device is opened for what is left, which is known when what was saved has been compared.
 * Then, which may take long, means and deviations are computed, and a new output is created when
 * these are known: until then an earlier run's stays what it is, and its journal, too. */
static int open_all(struct session *s)
{
    begin_stops(s);
    phase_begin("opening the journal", 0);
    s->resumed = s->journal.saved = s->progress.saved;
    if (take_output(s) || (s->resumed && (open_output(s) || session_compare(s))))
        return s->err.code;
    session_end_startup(s, STARTUP_OUTPUT);
    if (open_device(s))
        return s->err.code;
    session_end_startup(s, STARTUP_DEVICE);
    if (read_statistics(s))
        return s->err.code;
    phase_begin("making C's file", 0);
    report_baseline();
    if (s->comm.rank == 0)
        compare_beside(s);
    if (comm_agree(&s->comm, &s->err) || (!s->resumed && open_output(s)))
        return s->err.code;
    if (s->comm.rank == 0)
        output_sign(&s->output, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    comm_share(&s->comm, &s->output.source, sizeof s->output.source, 0);
    session_end_startup(s, STARTUP_OUTPUT);
    return 0;
}

/* 0 stands for none. */
static void draw_check_seed(struct options *o)
{
    while (o->check_seed == 0)
        o->check_seed = draw_random();
}

/* Collective.  Complain on ranks that were asked for another product, as those of a task farm are.
 * The padding of the options is alike, since arguments_parse begins with zeros. */
static void compare_options(struct session *s)
{
    uint64_t bytes = strlen(s->record.command) + 1;
    comm_share(&s->comm, &bytes, sizeof bytes, 0);
    struct options *first = malloc(sizeof *first);
    char *command = malloc(bytes);
    if (!first || !command)
        comm_no_memory(&s->comm, "the options of rank 0");
    if (s->comm.rank == 0) {
        *first = s->options;
        memcpy(command, s->record.command, bytes);
    }
    comm_share(&s->comm, first, sizeof *first, 0);
    comm_share(&s->comm, command, bytes, 0);
    if (memcmp(first, &s->options, sizeof *first) != 0)
        error_add(&s->err, EXIT_USAGE,
                  "this rank has another command line, or other DGEMM_OOC_ variables, than rank 0: "
                  "\"%.500s\", not \"%.500s\"; all ranks work on one product: start a run for each",
                  s->record.command, command);
    free(command);
    free(first);
}

/* Collective.  Relative names are those of rank 0's working folder, which this rank enters: names
 * inside of files may be relative, too.  Where it has another one, the names that it was given are
 * other files.  Where it cannot find rank 0's, what it sees decides (same_files.h). */
static void share_folder(const struct options *o, const struct comm *comm, struct error *err)
{
    const char *const names[] = {o->a.file, o->b.file, o->c.file, o->output.file};
    char folder[PATH_MAX] = "";
    struct stat mine, first;
    bool relative = false;
    if (comm->rank == 0 && !getcwd(folder, sizeof folder))
        folder[0] = '\0';
    comm_share(comm, folder, sizeof folder, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        relative |= names[i][0] && names[i][0] != '/';
    if (comm->rank == 0 || stat(".", &mine) || chdir(folder) || stat(".", &first))
        return;
    if (relative && (mine.st_dev != first.st_dev || mine.st_ino != first.st_ino))
        error_add(err, EXIT_INPUT,
                  "this rank was started in another folder than rank 0, which was in %s; give the "
                  "files' whole paths",
                  folder);
}

/* Not before MPI has started, which changes the environment: no thread may look at that then. */
static void show_phases(const struct options *o)
{
    const bool always = o->progress == PROGRESS_ALWAYS;
    if (always || (o->progress == PROGRESS_AUTO && !o->quiet))
        phases_open(always || isatty(STDERR_FILENO));
    phase_begin("starting the ranks", 0);
}

int session_run(struct session *s)
{
    if (s->comm.rank == 0)
        show_phases(&s->options);
    compare_options(s);
    share_folder(&s->options, &s->comm, &s->err);
    draw_check_seed(&s->options);
    comm_share(&s->comm, &s->options, sizeof s->options, 0);
    s->record.report.check_seed = s->options.check_seed;
    file_names_make(&s->output.names, s->options.output.file, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    session_end_startup(s, STARTUP_RANKS);
    if (s->options.check_only)
        return session_check_output(s);
    if (session_prepare(s))
        return s->err.code;
    if (s->complete)
        return session_find_complete(s);
    if (s->comm.rank == 0) {
        if (!s->options.quiet)
            print_header(s);
        session_warn_of_memory(&s->attempt.plan, s->comm.local_size);
    }
    if (open_all(s) == 0 && session_execute(s) == 0 && session_publish(s) == 0)
        session_print_report(s);
    phase_begin("cleaning up", 0);
    if (s->comm.rank == 0) {
        session_conclude(s);
        session_print_stopped(s);
    }
    run_close(&s->attempt.run);
    trace_close(&s->record.trace); /* which the run's threads write to until then */
    if (s->hardware.device)
        s->hardware.device->close(s->hardware.device);
    operand_state_free(&s->operands);
    statistics_free(&s->statistics);
    return s->err.code;
}
