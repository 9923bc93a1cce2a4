/* Before the work: what is to be multiplied, on what, how far it is, and the plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "device.h"
#include "error.h"
#include "gpu_absence.h"
#include "quantity.h"
#include "session.h"
#include "verify.h"

/* The lowest rank without a GPU speaks, where others have one or its computer has. */
static void say_why_cpu(const struct comm *comm, bool have)
{
    int without = (int)comm_min((uint64_t)(have ? comm->size : comm->rank));
    int with = (int)comm_min((uint64_t)(have ? comm->rank : comm->size));
    if (comm->rank == without && with < comm->size)
        fprintf(stderr,
                "dgemm_ooc: rank %d sees no GPU, others do: all compute on the CPU (--device gpu "
                "would refuse that); %s\n",
                without, device_gpu_absence());
    else if (comm->rank == without)
        session_say_cpu();
}

void session_say_cpu(void)
{
    if (gpu_is_present("/sys/bus/pci/devices"))
        fprintf(stderr,
                "dgemm_ooc: no GPU is used, though this computer has one: %s; --device cpu says "
                "that none is wanted\n",
                device_gpu_absence());
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
        error_add(&s->err, EXIT_RESOURCES, "no GPU can be used here: %s; --device cpu needs none",
                  device_gpu_absence());
    if (may && !must)
        say_why_cpu(&s->comm, gpus > 0);
    s->gpu = all_have ? place_choose_gpu(&s->comm, gpus, o->bind) : -1;
}

/* Collective over the ranks of a computer: how many of them work on this rank's GPU, whatever each
 * calls it. */
static int count_sharing(struct session *s, const struct device_info *info)
{
    size_t bytes = sizeof info->uuid;
    char *everyones = calloc((size_t)s->comm.local_size, bytes);
    int sharing = 0;
    if (!everyones)
        comm_abort(EXIT_RESOURCES);
    comm_local_gather(info->uuid, bytes, everyones);
    for (int i = 0; i < s->comm.local_size; i++)
        sharing += memcmp(everyones + (size_t)i * bytes, info->uuid, bytes) == 0;
    free(everyones);
    return sharing;
}

static void describe_machine(struct session *s)
{
    struct device_info info = {0};
    bool gpu = s->gpu >= 0 && device_gpu_info(s->gpu, &info, &s->err) == 0;
    struct machine *m = &s->machine;
    int sharing = count_sharing(s, &info);
    /* Threads are started later, and inherit it. */
    place_bind(&s->comm, info.pci, s->options.bind, &s->place);
    machine_probe(&s->options, s->comm.size, s->comm.local_size, s->place.threads,
                  gpu ? &info : NULL, sharing, m);
    if (s->options.machine[0]) {
        machine_read(&s->options, m, &s->err);
        m->gpu = gpu;
        m->ranks = s->comm.size;
    }
    machine_check_memory(&s->options, s->comm.local_size, gpu ? &info : NULL, sharing, m, &s->err);
    m->ranks_per_node = s->comm.node_size;
    m->device_memory = comm_min(m->device_memory); /* one plan for all ranks */
    m->host_memory = comm_min(m->host_memory);
    m->threads = (int)comm_min((uint64_t)m->threads);
}

/* Of a piece that is left: the problem that it is, what is asked of its plan, and the plan. */
/* Host memory of the trace, and of what the page shows. */
static size_t record_bytes(const struct options *o)
{
    return (o->trace[0] ? trace_bytes() : 0) +
           (o->html[0] ? sizeof(struct timeline) + sizeof(struct tiles) : 0);
}

static void plan_piece(struct session *s, const struct piece *piece, struct problem *part,
                       struct plan_request *request, struct plan *plan)
{
    const struct options *o = &s->options;
    *request = (struct plan_request){.grid_rows = o->grid_rows,
                                     .grid_cols = o->grid_cols,
                                     .layers = s->progress.layers ? s->progress.layers : o->layers,
                                     .whole = piece->k > 0,
                                     .tile_rows = o->tile_rows,
                                     .tile_cols = o->tile_cols,
                                     .slab = o->slab,
                                     .verify = o->verify != VERIFY_OFF,
                                     .record_bytes = record_bytes(o),
                                     .algorithm = s->algorithm};
    *part = work_problem(&s->problem, piece);
    if (o->tile_rows <= s->problem.m && o->tile_cols <= s->problem.n) { /* as large as it has */
        request->tile_rows = min_i64(o->tile_rows, part->m);
        request->tile_cols = min_i64(o->tile_cols, part->n);
    }
    plan_make(part, &s->machine, request, plan, &s->err);
}

void session_plan(struct session *s)
{
    const struct options *o = &s->options;
    int capability = s->machine.gpu ? s->machine.compute_capability : 0;
    s->algorithm = o->algorithm == ALGORITHM_AUTO ? algorithm_auto(capability, s->problem.type)
                                                  : (enum algorithm)o->algorithm;
    plan_piece(s, &s->progress.left.pieces[0], &s->piece, &s->request, &s->plan);
    if (s->comm.rank == 0 && !s->err.code)
        simulate(&s->piece, &s->machine, &s->request, &s->plan, &s->predicted);
    if (o->verify == VERIFY_FULL)
        verify_fits(&s->problem, &s->machine, &s->err);
}

/* All that is left: the first piece, whose plan is the session's, and then the others. */
static void plan_all(struct session *s)
{
    session_plan(s);
    s->all = s->predicted;
    for (int i = 1; i < s->progress.left.count && !s->err.code; i++) {
        struct problem part;
        struct plan_request request;
        struct plan plan;
        plan_piece(s, &s->progress.left.pieces[i], &part, &request, &plan);
        if (s->comm.rank > 0 || s->err.code)
            continue;
        struct simulation predicted;
        simulate(&part, &s->machine, &request, &plan, &predicted);
        simulation_add(&s->all, &predicted);
    }
}

void session_check_visible(const struct problem *p, struct error *err)
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

int session_check_operands(struct session *s)
{
    struct error changed = {0};
    if (s->err.code == EXIT_STOPPED)
        return s->err.code;
    if (s->comm.rank == 0)
        operand_state_check(&s->operands, &changed);
    comm_share(&changed, sizeof changed, 0);
    if (changed.code)
        s->err = changed;
    return s->err.code;
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

/* Rank 0: where the output stands. */
static void look_back(struct session *s)
{
    const struct options *o = &s->options;
    const struct problem *p = &s->problem;
    if (operand_state_take(&s->operands, p, &s->err) ||
        journal_describe(&s->journal, o, p, &s->operands, &s->err))
        return;
    s->identity = journal_identity(&s->journal);
    s->complete = output_is_complete(o, s->identity);
    if (s->complete) {
        output_check_beside(o, p, &s->err);
        return;
    }
    journal_read(&s->journal, o->restart, p, &s->progress, &s->err);
    if (s->progress.saved && !output_is_there(o)) /* it was given its name, or away */
        s->progress = (struct progress){0};
    output_check(o, p, s->progress.saved, &s->err);
    if (s->progress.saved && o->layers && o->layers != s->progress.layers)
        error_add(&s->err, EXIT_INPUT,
                  "what was saved is of --split-k %d; give that, or --restart never to start again",
                  s->progress.layers);
    if (!s->progress.saved)
        work_begin(&s->progress.left, p);
}

int session_prepare(struct session *s)
{
    choose_device(s);
    describe_machine(s);
    if (s->comm.rank == 0) {
        s->described = problem_open(&s->options, &s->problem, &s->err) == 0;
        if (s->described)
            look_back(s);
        else
            output_check(&s->options, NULL, false, &s->err);
        if (s->options.io == STORE_MAPPED &&
            s->comm.computers > 1) /* they would write whole pages */
            error_add(&s->err, EXIT_USAGE,
                      "--io mapped writes from one node only; leave --io at auto");
    }
    comm_share(&s->described, sizeof s->described, 0);
    comm_share(&s->problem, sizeof s->problem, 0);
    comm_share(&s->progress, sizeof s->progress, 0);
    comm_share(&s->complete, sizeof s->complete, 0);
    if (s->described && !s->options.machine[0])
        probe_disk(s);
    comm_share(&s->machine, sizeof s->machine, 0);
    if (s->described && !s->complete) {
        session_check_visible(&s->problem, &s->err);
        if (s->progress.left.count > 0)
            plan_all(s);
    }
    return comm_agree(&s->comm, &s->err);
}

void session_warn_of_memory(const struct session *s, int local_ranks)
{
    double wanted = (double)s->plan.host_bytes * local_ranks;
    double available = (double)machine_host_memory();
    if (s->comm.rank == 0 && s->plan.grid_rows > 0 && wanted > available)
        fprintf(stderr,
                "dgemm_ooc: the plan takes %s of host memory on this computer, where %s are "
                "available now: the run may be killed; lower --host-memory, which is per rank\n",
                quantity_bytes(wanted), quantity_bytes(available));
}
