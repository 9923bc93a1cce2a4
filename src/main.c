/* dgemm_ooc: the phases of a run.  Each ends in an agreement of all ranks, so that all go on or
 * none. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "comm.h"
#include "device.h"
#include "error.h"
#include "meter.h"
#include "options.h"
#include "output.h"
#include "place.h"
#include "quantity.h"
#include "report.h"
#include "run.h"
#include "simulate.h"
#include "version.h"
#include "watch.h"

struct session {
    struct options options;
    struct comm comm;
    struct machine machine;
    struct problem problem;
    struct plan_request request;
    struct plan plan;
    int gpu; /* index, or -1 for the CPU */
    enum algorithm algorithm;
    struct device *device;
    struct place place;
    struct output output;
    struct run run;
    struct report report;
    struct error err;
};

static void print_error(const struct error *err)
{
    for (const char *line = err->text; *line;) {
        size_t length = strcspn(line, "\n");
        fprintf(stderr, "dgemm_ooc: %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* Take the GPU that this rank works on; -1 for the CPU.  All ranks use the same kind. */
static void choose_device(struct session *s)
{
    const struct options *o = &s->options;
    const struct algorithm_info *wanted =
        o->algorithm == ALGORITHM_AUTO ? NULL : algorithm_of((enum algorithm)o->algorithm);
    bool must = o->device == CHOOSE_GPU || (wanted && wanted->on_gpu);
    bool may = must || (o->device == CHOOSE_AUTO && !wanted);
    int gpus = may ? device_gpu_count() : 0;
    bool all_have = comm_min((uint64_t)gpus) > 0;
    if (must && gpus == 0)
        error_add(&s->err, EXIT_RESOURCES,
                  "no GPU can be used here; --device cpu does without one");
    s->gpu = all_have ? s->comm.local_rank % gpus : -1;
}

static void describe_machine(struct session *s)
{
    struct device_info info;
    bool gpu = s->gpu >= 0 && device_gpu_info(s->gpu, &info, &s->err) == 0;
    struct machine *m = &s->machine;
    machine_probe(&s->options, s->comm.size, s->comm.local_size, gpu ? &info : NULL, m);
    if (s->options.machine[0]) {
        machine_read(&s->options, m, &s->err);
        m->gpu = gpu;
        m->ranks = s->comm.size;
    }
    m->ranks_per_node = s->comm.node_size;
    m->device_memory = comm_min(m->device_memory); /* one plan for all ranks */
    m->host_memory = comm_min(m->host_memory);
    m->threads = (int)comm_min((uint64_t)m->threads);
}

static void set_request(struct session *s)
{
    const struct options *o = &s->options;
    int capability = s->machine.gpu ? s->machine.compute_capability : 0;
    s->algorithm = o->algorithm == ALGORITHM_AUTO ? algorithm_auto(capability, s->problem.type)
                                                  : (enum algorithm)o->algorithm;
    s->request = (struct plan_request){.grid_rows = o->grid_rows,
                                       .grid_cols = o->grid_cols,
                                       .tile_rows = o->tile_rows,
                                       .tile_cols = o->tile_cols,
                                       .slab = o->slab,
                                       .verify = o->verify,
                                       .trace = o->trace[0] != 0,
                                       .algorithm = s->algorithm};
}

/* A rank must see the same files as rank 0. */
static void check_visible(const struct problem *p, struct error *err)
{
    for (int operand = 0; operand < OPERAND_COUNT; operand++) {
        const struct matrix_info *info = &p->matrix[operand];
        struct stat status;
        if (!problem_reads(p, (enum operand)operand))
            continue;
        if (stat(info->file, &status) || (uint64_t)status.st_size != info->file_bytes)
            error_add(err, EXIT_INPUT,
                      "this rank does not see the %s that rank 0 sees; is it on "
                      "node-local storage?",
                      info->file);
    }
}

/* Every computer probes, all at the same time; the slowest counts for all. */
static void probe_disk(struct session *s)
{
    struct machine *m = &s->machine;
    if (s->comm.local_rank == 0)
        machine_probe_disk(&s->problem, s->comm.computers, m);
    bool speaks = s->comm.local_rank == 0;
    m->disk_read_bytes_per_s =
        (double)comm_min(speaks ? (uint64_t)m->disk_read_bytes_per_s : UINT64_MAX);
    m->files_in_memory = comm_min(speaks ? m->files_in_memory : UINT64_MAX);
}

/* Everything that can be found wrong before the work starts. */
static int prepare(struct session *s)
{
    int described = 0;
    choose_device(s);
    describe_machine(s);
    if (s->comm.rank == 0) {
        described = problem_open(&s->options, &s->problem, &s->err) == 0;
        output_check(&s->options, described ? &s->problem : NULL, &s->err);
        if (s->options.io == STORE_MAPPED &&
            s->comm.computers > 1) /* they would write whole pages */
            error_add(&s->err, EXIT_USAGE,
                      "--io mapped writes from one node only; leave --io at auto");
    }
    comm_share(&described, sizeof described, 0);
    comm_share(&s->problem, sizeof s->problem, 0);
    if (described && !s->options.machine[0])
        probe_disk(s);
    comm_share(&s->machine, sizeof s->machine, 0);
    if (described) {
        check_visible(&s->problem, &s->err);
        set_request(s);
        plan_make(&s->problem, &s->machine, &s->request, &s->plan, &s->err);
    }
    return comm_agree(&s->comm, &s->err);
}

static void print_header(const struct session *s)
{
    printf("dgemm_ooc   %s\n", version_text());
    plan_print(&s->problem, &s->machine, &s->plan);
}

static int open_device(struct session *s)
{
    if (s->gpu >= 0)
        device_gpu_open(s->gpu, s->algorithm, &s->device, &s->err);
    else
        device_cpu_open(s->machine.threads, &s->device, &s->err);
    /* The threads that move bytes are started later, and inherit it. */
    place_near(s->device ? s->device->info.pci : "", NULL, s->options.bind, &s->place);
    if (!s->options.quiet)
        place_print(&s->comm, &s->place);
    report_baseline();
    return comm_agree(&s->comm, &s->err);
}

static int open_output(struct session *s)
{
    if (s->comm.rank == 0)
        output_create(&s->output, &s->options, &s->problem, &s->err);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    comm_share(&s->output.info, sizeof s->output.info, 0);
    s->run = (struct run){.problem = &s->problem,
                          .plan = &s->plan,
                          .request = &s->request,
                          .output_info = &s->output.info,
                          .comm = &s->comm,
                          .device = s->device,
                          .traced = s->request.trace};
    run_open(&s->run, &s->err);
    return comm_agree(&s->comm, &s->err);
}

static int execute(struct session *s)
{
    double start = clock_now();
    if (run_execute(&s->run, &s->err) == 0)
        store_sync(s->run.output, &s->err);
    if (s->err.code > 0)
        comm_raise(&s->comm);
    if (comm_agree(&s->comm, &s->err))
        return s->err.code;
    if (s->comm.rank == 0)
        output_finish(&s->output, &s->options, &s->err);
    s->report.wall_s = clock_now() - start;
    return comm_agree(&s->comm, &s->err);
}

static int finish_report(struct session *s)
{
    const struct algorithm_info *algorithm = algorithm_of(s->algorithm);
    struct report *r = &s->report;
    report_gather(&s->run, &s->machine, r);
    r->checked = s->options.verify;
    r->same_bits = algorithm->same_bits;
    snprintf(r->algorithm, sizeof r->algorithm, "%s", algorithm->name);
    if (s->comm.rank == 0) {
        if (!s->options.quiet)
            report_print(r, &s->problem, &s->machine, &s->plan);
        if (s->options.report[0])
            report_write(s->options.report, r, &s->problem, &s->machine, &s->plan, &s->err);
    }
    struct error of_trace = {0};
    if (s->request.trace)
        trace_write(&s->run.trace, &s->comm, s->options.trace, &of_trace);
    if (s->comm.rank == 0) {
        if (of_trace.code)
            error_add(&s->err, of_trace.code, "%s", of_trace.text);
        report_result(r);
        if (fflush(stdout) || ferror(stdout))
            error_add(&s->err, EXIT_RUNTIME, "cannot write to standard output; C is complete");
    }
    return comm_agree(&s->comm, &s->err);
}

static int run_session(struct session *s, double started)
{
    if (comm_open(&s->comm, &s->err))
        return s->err.code;
    watch_begin(&s->comm);
    comm_share(&s->options, sizeof s->options, 0);
    if (prepare(s))
        return s->err.code;
    if (s->comm.rank == 0 && !s->options.quiet)
        print_header(s);
    if (open_device(s) == 0 && open_output(s) == 0) {
        s->report.startup_s = clock_now() - started;
        if (execute(s) == 0)
            finish_report(s);
    }
    if (s->err.code && s->comm.rank == 0)
        output_drop(&s->output);
    run_close(&s->run);
    if (s->device)
        s->device->close(s->device);
    return s->err.code;
}

/* Plan for a machine that may not be there, and simulate the run on it: no MPI, no GPU, no
 * output. */
static int dry_run(struct session *s)
{
    const struct options *o = &s->options;
    struct simulation simulation;
    struct device_info info;
    int ranks = o->ranks ? o->ranks : comm_launcher_size();
    int local = o->ranks_per_node ? o->ranks_per_node : ranks;
    bool gpu = o->device != CHOOSE_CPU && device_gpu_count() > 0 &&
               device_gpu_info(0, &info, &s->err) == 0;
    machine_probe(o, ranks, local, gpu ? &info : NULL, &s->machine);
    if (o->machine[0])
        machine_read(o, &s->machine, &s->err);
    s->machine.ranks = o->ranks ? o->ranks : s->machine.ranks;
    s->machine.ranks_per_node = o->ranks_per_node ? o->ranks_per_node : s->machine.ranks_per_node;
    if (problem_open(o, &s->problem, &s->err) == 0) {
        if (!o->machine[0])
            machine_probe_disk(&s->problem,
                               (int)ceil_div(s->machine.ranks, s->machine.ranks_per_node),
                               &s->machine);
        set_request(s);
        plan_make(&s->problem, &s->machine, &s->request, &s->plan, &s->err);
    }
    if (s->err.code ||
        simulate(&s->problem, &s->machine, &s->request, &s->plan, &simulation, &s->err))
        return s->err.code;
    plan_print(&s->problem, &s->machine, &s->plan);
    simulate_print(&simulation);
    if (o->report[0])
        report_write_simulation(o->report, &simulation, &s->problem, &s->machine, &s->plan,
                                &s->err);
    return s->err.code;
}

int main(int argc, char **argv)
{
    static struct session session = {.output = {.lock = -1}};
    double started = clock_now();
    bool speaks = comm_launcher_rank() == 0;
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    options_parse(argc, argv, !speaks, &session.options);
    if (session.options.dry_run) {
        int code = speaks ? dry_run(&session) : 0;
        if (speaks)
            print_error(&session.err);
        return code;
    }
    int code = run_session(&session, started);
    if (code && session.comm.rank == 0)
        print_error(&session.err);
    comm_barrier();
    watch_end();
    comm_barrier(); /* nobody leaves while another still watches */
    comm_close();
    return code;
}
