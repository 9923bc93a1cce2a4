/* The phases of a run.  Each ends in an agreement of all ranks, so that all continue or none. */
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "advice.h"
#include "device.h"
#include "error.h"
#include "meter.h"
#include "nodes.h"
#include "quantity.h"
#include "session.h"
#include "stop.h"
#include "version.h"
#include "watch.h"

enum { STOP_SECONDS = 30 }; /* that a launcher may be expected to wait */

static void print_header(const struct session *s)
{
    const struct progress *progress = &s->progress;
    char date[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S %z", localtime_r(&now, &local));
    printf("dgemm_ooc   %s\nCommand     %s\nStarted     %s\n", version_text(), s->command, date);
    if (progress->left.count > 0) {
        plan_print(&s->problem, &s->machine, &s->plan);
        simulate_print_time(&s->all);
    }
    double save_s = progress->left.count > 0 ? session_save_seconds(s) : 0;
    if (save_s > STOP_SECONDS)
        printf("Note        saving takes about %s: send the signal to stop at least so long before "
               "the end\n",
               quantity_time(save_s));
    if (s->options.max_s > 0 && progress->left.count > 0)
        printf("Time limit  %s (--max-time): the run saves and stops before it is over\n",
               quantity_time(s->options.max_s));
    if (progress->saved)
        printf("Restart     %.1f %% is done, in %s; %d piece%s left\n",
               100 * work_done(&progress->left, &s->problem), quantity_time(progress->seconds),
               progress->left.count, progress->left.count == 1 ? "" : "s");
    fflush(stdout);
}

/* Rank 0: what would make the run faster. */
static void advise(const struct session *s)
{
    const struct advice advice = {.problem = &s->piece,
                                  .machine = &s->machine,
                                  .request = &s->request,
                                  .predicted = &s->predicted,
                                  .places = s->places,
                                  .computers = s->comm.computers,
                                  .gpus = s->gpu >= 0 ? device_gpu_count() : 0};
    advice_print(&advice, stdout);
}

static int open_device(struct session *s)
{
    if (s->gpu >= 0)
        device_gpu_open(s->gpu, s->algorithm, &s->device, &s->err);
    else
        device_cpu_open(s->plan.compute_threads, &s->device, &s->err);
    if (s->device)
        snprintf(s->place.device, sizeof s->place.device, "%s", s->device->info.name);
    s->places = place_gather(&s->comm, &s->place);
    if (s->places && !s->options.quiet)
        place_print(s->places, s->comm.size, s->options.verbose);
    if (s->places && !s->options.quiet && s->progress.left.count > 0)
        advise(s);
    report_baseline();
    return comm_agree(&s->comm, &s->err);
}

/* The device is opened for what is left, which is known when what was saved has been compared; a
 * new output is begun when there is a device. */
static int open_all(struct session *s)
{
    bool again = s->progress.saved;
    if (again && (session_open_output(s) || session_compare(s)))
        return s->err.code;
    return open_device(s) || again ? s->err.code : session_open_output(s);
}

/* The page of the run, where one is wanted.  A failure is a complaint like others. */
static void write_page(struct session *s)
{
    struct error of_page = {0};
    const struct account account = session_account(s);
    bool multiplied = s->report.planned.pieces > 0; /* and not all by an earlier run */
    if (!s->options.html[0])
        return;
    if (!multiplied) {
        session_say_unwritten(s, "page", s->options.html);
        return;
    }
    page_write(&s->page, &account, &s->comm, s->options.html, &of_page);
    if (of_page.code && s->comm.rank == 0)
        error_add(&s->err, of_page.code, "%s", of_page.text);
    else if (s->comm.rank == 0 && !s->options.quiet)
        printf("Page        %s\n", s->options.html);
}

static int finish_report(struct session *s)
{
    const struct report *r = &s->report;
    if (s->comm.rank == 0 && !s->options.quiet && r->wall_s > 0)
        report_print(r, &s->problem, &s->machine, &s->plan);
    if (s->comm.rank == 0 && !s->options.quiet && r->full.judged)
        report_full_check(&r->full);
    if (s->comm.rank == 0 && s->of_trace.code)
        error_add(&s->err, s->of_trace.code, "%s", s->of_trace.text);
    s->verdict = report_verdict(r);
    s->done = s->complete ? 1 : s->done;
    write_page(s);
    if (s->comm.rank == 0) {
        report_print_result(r);
        if (fflush(stdout) || ferror(stdout))
            error_add(&s->err, EXIT_RUNTIME, "cannot write to standard output; C is complete");
    }
    return comm_agree(&s->comm, &s->err);
}

/* Rank 0: what no earlier run, and nobody who wrote the files, can have known. */
static void draw_check_seed(struct options *o)
{
    while (o->check_seed == 0)
        if (getrandom(&o->check_seed, sizeof o->check_seed, 0) != sizeof o->check_seed)
            o->check_seed = (uint64_t)(1e9 * clock_now());
}

/* The output was complete before. */
static int find_complete(struct session *s)
{
    if (s->comm.rank == 0)
        session_say_complete(s);
    s->options.check_only = s->options.verify == VERIFY_FULL;
    return s->options.check_only ? session_check_output(s) : 0;
}

int session_run(struct session *s)
{
    if (comm_open(&s->comm, &s->err) || nodes_form(&s->comm, &s->err))
        return s->err.code;
    stop_listen(); /* once more: MPICH takes SIGUSR1 too, and without a launcher hangs at it */
    watch_begin(&s->comm);
    draw_check_seed(&s->options);
    s->report.check_seed = s->options.check_seed;
    comm_share(&s->options, sizeof s->options, 0);
    if (s->options.check_only)
        return session_check_output(s);
    if (session_prepare(s))
        return s->err.code;
    if (s->complete)
        return find_complete(s);
    if (s->comm.rank == 0 && !s->options.quiet)
        print_header(s);
    session_warn_of_memory(s, s->comm.local_size);
    if (open_all(s) == 0 && session_execute(s) == 0)
        finish_report(s);
    if (s->comm.rank == 0)
        session_leave(s);
    run_close(&s->run);
    trace_close(&s->trace); /* which the run's threads write to until then */
    if (s->device)
        s->device->close(s->device);
    operand_state_free(&s->operands);
    return s->err.code;
}
