/* dgemm_ooc: the phases of a run.  Each ends in an agreement of all ranks, so that all
 * continue or none. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "advice.h"
#include "device.h"
#include "error.h"
#include "launcher.h"
#include "meter.h"
#include "paper.h"
#include "quantity.h"
#include "session.h"
#include "simulate.h"
#include "verify.h"
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
        plan_print_time("Predicted", &s->all, progress->left.count);
    }
    double save_s = progress->left.count > 0 ? session_save_seconds(s) : 0;
    if (save_s > STOP_SECONDS)
        printf("Note        saving takes about %s: send the signal to stop at least so long before "
               "the end\n",
               quantity_time(save_s));
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
                                  .plan = &s->plan,
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
    const struct page_facts facts = {.problem = &s->problem,
                                     .machine = &s->machine,
                                     .plan = &s->plan,
                                     .report = &s->report,
                                     .output = &s->options.output,
                                     .command = s->command};
    bool multiplied = s->report.planned.pieces > 0; /* and not all by an earlier run */
    if (!s->options.html[0])
        return;
    if (!multiplied) {
        session_say_unwritten(s, "page", s->options.html);
        return;
    }
    page_write(&s->page, &facts, &s->comm, s->options.html, &of_page);
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
    write_page(s);
    if (s->comm.rank == 0) {
        if (s->of_trace.code)
            error_add(&s->err, s->of_trace.code, "%s", s->of_trace.text);
        s->verdict = report_result(r);
        if (fflush(stdout) || ferror(stdout))
            error_add(&s->err, EXIT_RUNTIME, "cannot write to standard output; C is complete");
    }
    return comm_agree(&s->comm, &s->err);
}

/* Find the output that there is, and the operands that it says it was made from. */
static int find_output(struct session *s, struct verify *full)
{
    struct recall recall = {0};
    const struct problem *p = &s->problem;
    const struct matrix_info *c = &recall.info;
    if (s->comm.rank == 0 && output_recall(&s->options, &recall, &s->err) == 0 &&
        (s->described = problem_open(&s->options, &s->problem, &s->err) == 0) &&
        operand_state_take(&s->operands, &s->problem, &s->err) == 0 &&
        output_check_beside(&s->options, &s->problem, &s->err) == 0 &&
        (c->rows != p->m || c->cols != p->n))
        error_add(&s->err, EXIT_INPUT,
                  "%s:%s is %" PRId64 "x%" PRId64 ", but op(A) op(B) is %" PRId64 "x%" PRId64,
                  c->file, c->dataset, c->rows, c->cols, p->m, p->n);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    comm_share(&recall, sizeof recall, 0);
    comm_share(&s->problem, sizeof s->problem, 0);
    s->output.info = recall.info;
    *full = (struct verify){.seed = s->options.check_seed,
                            .has_expected = recall.has_checksum,
                            .expected = recall.checksum};
    return 0;
}

/* Check an output that is there.  Writes nothing but the report. */
static int check_session(struct session *s)
{
    struct verify *full = &s->report.full;
    if (find_output(s, full))
        return s->err.code;
    place_bind(&s->comm, "", s->options.bind, &s->place);
    machine_probe(&s->options, s->comm.size, s->comm.local_size, s->place.threads, NULL, 1,
                  &s->machine);
    machine_check_memory(&s->options, s->comm.local_size, NULL, 1, &s->machine, &s->err);
    session_check_visible(&s->problem, &s->err);
    verify_fits(&s->problem, &s->machine, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    verify_files(&s->problem, &s->output.info, &s->machine, &s->comm, full, &s->err);
    if (session_check_operands(s)) {
        if (s->err.code == EXIT_STOPPED)
            error_add(&s->err, EXIT_STOPPED, "stopped by %s before all was read", stop_reason());
        return s->err.code;
    }
    if (s->comm.rank == 0) {
        s->done = 1;
        if (!s->options.quiet)
            report_full_check(full);
        s->verdict = report_check_result(full);
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
    return s->options.check_only ? check_session(s) : 0;
}

/* The plan takes no more than the limits that were given; they may be more than there is now. */
static void warn_of_memory(const struct session *s, int local_ranks)
{
    double wanted = (double)s->plan.host_bytes * local_ranks;
    double available = (double)machine_host_memory();
    if (s->comm.rank == 0 && s->plan.grid_rows > 0 && wanted > available)
        fprintf(stderr,
                "dgemm_ooc: the plan takes %s of host memory on this computer, where %s are "
                "available now: the run may be killed; lower --host-memory, which is per rank\n",
                quantity_bytes(wanted), quantity_bytes(available));
}

static int run_session(struct session *s)
{
    if (comm_open(&s->comm, &s->err))
        return s->err.code;
    stop_listen(); /* once more: MPICH takes SIGUSR1 too, and without a launcher hangs at it */
    watch_begin(&s->comm);
    draw_check_seed(&s->options);
    s->report.check_seed = s->options.check_seed;
    comm_share(&s->options, sizeof s->options, 0);
    if (s->options.check_only)
        return check_session(s);
    if (session_prepare(s))
        return s->err.code;
    if (s->complete)
        return find_complete(s);
    if (s->comm.rank == 0 && !s->options.quiet)
        print_header(s);
    warn_of_memory(s, s->comm.local_size);
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

/* Plan for a machine that may not be there, and simulate the run on it: no MPI, no GPU, no
 * output. */
static int dry_run(struct session *s, struct simulation *simulation)
{
    const struct options *o = &s->options;
    struct device_info info;
    struct error beyond = {0};
    int ranks = o->ranks ? o->ranks : launcher_size();
    int launched = o->ranks ? ranks : launcher_local_size();
    int local = o->ranks_per_node ? o->ranks_per_node : launched;
    int gpus = o->device != CHOOSE_CPU ? device_gpu_count() : 0;
    bool gpu = gpus > 0 && device_gpu_info(0, &info, &s->err) == 0;
    int sharing = gpu ? (int)ceil_div(local, gpus) : 1;
    if (!gpu && !o->machine[0] && o->device == CHOOSE_GPU)
        error_add(&s->err, EXIT_RESOURCES,
                  "no GPU can be used here (--machine plans for one that is elsewhere): %s",
                  device_gpu_absence());
    else if (!gpu && !o->machine[0] && o->device == CHOOSE_AUTO && o->algorithm == ALGORITHM_AUTO)
        session_say_cpu();
    machine_probe(o, ranks, local, machine_cpus() / local, gpu ? &info : NULL, sharing,
                  &s->machine);
    if (o->machine[0])
        machine_read(o, &s->machine, &s->err);
    s->machine.ranks = o->ranks ? o->ranks : s->machine.ranks;
    s->machine.ranks_per_node = o->ranks_per_node ? o->ranks_per_node : s->machine.ranks_per_node;
    s->described = problem_open(o, &s->problem, &s->err) == 0;
    if (s->described && output_check_beside(o, &s->problem, &s->err) == 0) {
        if (!o->machine[0])
            machine_probe_disk(&s->problem,
                               (int)ceil_div(s->machine.ranks, s->machine.ranks_per_node),
                               &s->machine);
        work_begin(&s->progress.left, &s->problem);
        session_plan(s);
    }
    if (s->err.code ||
        simulate(&s->problem, &s->machine, &s->request, &s->plan, simulation, &s->err))
        return s->err.code;
    if (!o->quiet) {
        plan_print(&s->problem, &s->machine, &s->plan);
        simulate_print(simulation);
    }
    if (o->verbose && !o->quiet)
        plan_print_time("Estimate", &s->plan, 1);
    simulate_print_time(simulation);
    if (!o->machine[0] &&
        machine_check_memory(o, local, gpu ? &info : NULL, sharing, &s->machine, &beyond))
        error_add(&beyond, EXIT_RESOURCES, "a run would be refused for that");
    else if (!o->machine[0])
        warn_of_memory(s, local);
    error_print(&beyond, "dgemm_ooc");
    return s->err.code;
}

/* Keep what was said on the command line, in a form that can be printed. */
static const char *join_command(int argc, char **argv)
{
    size_t bytes = 1;
    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    char *command = calloc(1, bytes), *end = command;
    for (int i = 0; i < argc && command; i++)
        end += sprintf(end, "%s%s", i ? " " : "", argv[i]);
    if (command)
        error_make_plain(command);
    return command ? command : argv[0];
}

/* Whether a report may take the place of what is there.  Where it is not known what the operands
 * lead to, only of another report. */
static bool may_report(const struct session *s)
{
    const struct options *o = &s->options;
    const struct problem *known = s->described ? &s->problem : NULL;
    struct error why = {0};
    char first = '{';
    int fd = known || paper_is_standard(o->report)
                 ? -1
                 : open(o->report, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && read(fd, &first, 1) <= 0)
        first = '\0';
    if (fd >= 0)
        close(fd);
    return o->report[0] && first == '{' && output_check_beside(o, known, &why) == 0;
}

/* Rank 0, at the end, whatever it was. */
static void tell(struct session *s, const struct simulation *simulation)
{
    struct error why = s->err;
    const struct account account = {.command = s->command,
                                    .err = &why,
                                    .ending = s->options.dry_run      ? "simulated"
                                              : s->options.check_only ? "checked"
                                                                      : "complete",
                                    .done = s->done,
                                    .verdict = s->verdict,
                                    .report = &s->report,
                                    .simulation = simulation,
                                    .problem = s->described ? &s->problem : NULL,
                                    .machine = s->machine.ranks > 0 ? &s->machine : NULL,
                                    .plan = s->plan.grid_rows > 0 ? &s->plan : NULL,
                                    .places = s->places};
    if (may_report(s))
        report_write(s->options.report, &account, &s->err);
    error_print(&s->err, "dgemm_ooc");
}

int main(int argc, char **argv)
{
    static struct session session = {.output = {.lock = -1}, .journal = {.descriptor = -1}};
    bool speaks = launcher_rank() == 0;
    session.started = clock_now();
    session.command = join_command(argc, argv);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    signal(SIGPIPE, SIG_IGN); /* and so is a log that nobody reads, at the end */
    options_parse(argc, argv, !speaks, &session.options);
    paper_reserve(&session.options);
    if (session.options.dry_run) {
        struct simulation simulation;
        if (speaks)
            tell(&session, dry_run(&session, &simulation) ? NULL : &simulation);
        return session.err.code;
    }
    stop_listen();
    run_session(&session);
    if (session.comm.rank == 0)
        tell(&session, NULL);
    int code = session.err.code ? session.err.code : session.verdict;
    comm_barrier();
    watch_end();
    comm_barrier(); /* nobody leaves while another still watches */
    comm_close();
    bool heard = session.comm.rank == 0 || session.comm.size == 1;
    return heard ? code : 0; /* a launcher kills all at the first code, also who has yet to speak */
}
