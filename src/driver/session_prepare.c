/* Before the work: what is to be multiplied, on which machine, how much of it is done already. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "error.h"
#include "gpu_absence.h"
#include "output_check.h"
#include "phase.h"
#include "problem_open.h"
#include "same_files.h"
#include "session.h"
#include "spread.h"

void session_warn_of_cpu(void)
{
    if (gpu_is_present("/sys/bus/pci/devices"))
        fprintf(stderr,
                "dgemm_ooc: the GPU of this computer is not used: %s; give --device cpu if that is "
                "what you want\n",
                device_gpu_absence());
}

/* The lowest rank without a GPU warns, where other ranks have one or its computer has. */
static void warn_without_gpu(const struct comm *comm, bool have)
{
    int without = (int)comm_min(comm, (uint64_t)(have ? comm->size : comm->rank));
    int with = (int)comm_min(comm, (uint64_t)(have ? comm->rank : comm->size));
    phase_hide();
    if (comm->rank == without && with < comm->size)
        fprintf(stderr,
                "dgemm_ooc: rank %d sees no GPU, but other ranks do, so all compute on the CPU: "
                "%s; give --device gpu to stop instead\n",
                without, device_gpu_absence());
    else if (comm->rank == without)
        session_warn_of_cpu();
}

/* The GPU that this rank computes on, or -1 for the CPU.  All ranks use the same kind. */
static int choose_gpu(const struct options *o, const struct comm *comm, struct error *err)
{
    const struct kernel *wanted = o->algorithm == ALGORITHM_AUTO ? NULL : kernels[o->algorithm];
    bool must = o->device == CHOOSE_GPU || (wanted && !wanted->on_cpu);
    bool may = must || (o->device == CHOOSE_AUTO && (!wanted || wanted->on_gpu));
    int gpus = may ? device_gpu_count() : 0;
    bool all_have = comm_min(comm, (uint64_t)gpus) > 0;
    if (must && gpus == 0)
        error_add(err, EXIT_RESOURCES, "no GPU can be used here: %s; give --device cpu to use none",
                  device_gpu_absence());
    if (may && !must)
        warn_without_gpu(comm, gpus > 0);
    return all_have ? placement_choose_gpu(comm, gpus, o->bind) : -1;
}

/* Collective over the ranks of a computer: how many of them work on this rank's GPU, whatever each
 * calls it. */
static int count_sharing(const struct comm *comm, const struct device_info *info)
{
    size_t bytes = sizeof info->uuid;
    char *everyones = comm_local_gather(comm, info->uuid, bytes);
    int sharing = 0;
    for (int i = 0; i < comm->local_size; i++)
        sharing += memcmp(everyones + (size_t)i * bytes, info->uuid, bytes) == 0;
    free(everyones);
    return sharing;
}

/* Collective.  The slowest rank's link counts for all. */
static void agree_on_link(const struct comm *comm, struct machine *m)
{
    const double own = m->in_bytes_per_s;
    m->in_bytes_per_s = (double)comm_min(comm, (uint64_t)own);
    m->out_bytes_per_s = (double)comm_min(comm, (uint64_t)m->out_bytes_per_s);
    if (m->in_bytes_per_s < floor(own))
        machine_measured(m, &m->in_bytes_per_s);
}

static void describe_machine(struct hardware *h, const struct options *o, const struct comm *comm,
                             struct error *err)
{
    struct device_info info = {0};
    bool gpu = h->gpu >= 0 && device_gpu_info(h->gpu, &info, err) == 0;
    const struct device_info *known = gpu ? &info : NULL;
    struct machine *m = &h->machine;
    int sharing = count_sharing(comm, &info);
    /* Threads are started later, and inherit the binding. */
    placement_bind(comm, info.pci, o->bind, &h->placement);
    machine_probe(o, comm->size, comm->local_size, h->placement.threads, known, sharing, m);
    if (gpu && sharing == 1)
        machine_see_link(device_gpu_link(h->gpu), m);
    if (o->machine[0]) {
        machine_read(o, m, err);
        m->gpu = gpu;
        m->ranks = comm->size;
    }
    machine_check_memory(o, comm->local_size, known, sharing, m, err);
    m->ranks_per_node = comm->node_size;
    m->device_memory = comm_min(comm, m->device_memory); /* one plan for all ranks */
    m->host_memory = comm_min(comm, m->host_memory);
    m->threads = (int)comm_min(comm, (uint64_t)m->threads);
    /* As rank 0 has them, which makes C's file: on other ranks its folder may not be there. */
    comm_share(comm, &m->output_in_memory, sizeof m->output_in_memory, 0);
    comm_share(comm, &m->disk_write_bytes_per_s, sizeof m->disk_write_bytes_per_s, 0);
    agree_on_link(comm, m);
}

int session_check_operands(struct session *s)
{
    struct error changed = {0};
    if (s->err.code == EXIT_STOPPED)
        return s->err.code;
    phase_begin("looking at the files again", 0);
    if (s->comm.local_rank == 0)
        operand_state_check(&s->operands, &changed);
    if (comm_agree(&s->comm, &changed))
        s->err = changed;
    return s->err.code;
}

/* All ranks probe their disks at the same time, with their CPUs; the slowest computer counts for
 * all. */
static void probe_disk(struct machine *m, const struct problem *p, const struct comm *comm)
{
    const struct prober prober = {comm->local_rank, comm->local_size};
    comm_barrier(comm);
    double mine = machine_probe_disk(p, &prober, m), all = 0;
    double *rates = comm_local_gather(comm, &mine, sizeof mine);
    for (int i = 0; i < comm->local_size; i++)
        all += rates[i];
    free(rates);
    m->files_in_memory = comm_min(comm, m->files_in_memory);
    machine_see_disk((double)comm_min(comm, (uint64_t)all) * comm->computers, m);
}

/* Rank 0: what earlier runs have left of this product. */
static void look_back(struct session *s)
{
    const struct options *o = &s->options;
    const struct file_names *names = &s->output.names;
    const struct problem *p = &s->problem;
    if (operand_state_take(&s->operands, p, &s->err))
        return;
    journal_describe(&s->journal, names, o, p, &s->operands);
    const enum output_state state = output_state(o, journal_identity(&s->journal), &s->err);
    s->complete = state == OUTPUT_COMPLETE && !o->force && o->restart != RESTART_NEVER;
    if (s->complete) {
        output_check_beside(names, o, p, &s->err);
        return;
    }
    journal_read(&s->journal, o->restart, p, &s->progress, &s->err);
    s->output.left = !s->progress.saved                   ? LEFT_NOTHING
                     : output_part_exists(names, &s->err) ? LEFT_PART
                     : state == OUTPUT_UNFINISHED         ? LEFT_MISPLACED
                                                          : LEFT_NOTHING;
    if (s->output.left == LEFT_NOTHING) /* it was given its name, or away */
        s->progress = (struct progress){0};
    output_check(names, o, p, s->output.left, &s->err);
    if (s->progress.saved && o->layers && o->layers != s->progress.layers)
        error_add(&s->err, EXIT_INPUT,
                  "the checkpoint was made with --split-k %d; give that, or --restart never to "
                  "start again",
                  s->progress.layers);
    if (s->progress.saved)
        s->problem.symmetric = s->progress.left.symmetric; /* its pieces go on as they are */
    else
        work_begin(&s->progress.left, p);
}

int session_choose_moduli(const struct options *o, struct problem *p, struct error *err)
{
    struct spread spread;
    if (p->moduli == 0 || !problem_reads_ab(p) || p->scaling.axis || spread_probe(p, &spread, err))
        return err->code;
    if (o->moduli == 0)
        p->moduli = spread.moduli > 0 ? spread.moduli : RESIDUES_MOST;
    phase_hide();
    if (spread.moduli == 0)
        fprintf(stderr,
                "dgemm_ooc: the dynamic range of A or B is so wide that even %d moduli may be less "
                "accurate than plain sums of products; leave --algo at auto\n",
                RESIDUES_MOST);
    else if (spread.moduli > p->moduli)
        fprintf(stderr,
                "dgemm_ooc: %d moduli are too few for the dynamic range of A and B: sampled errors "
                "reach %.2g u |A| |B|, over an eighth of the bound of plain sums, %" PRId64
                "; give --algo ozaki:%d, or ozaki\n",
                p->moduli, spread.units, p->k, spread.moduli);
    return 0;
}

int session_prepare(struct session *s)
{
    struct hardware *h = &s->hardware;
    phase_begin("looking for devices", 0);
    h->gpu = choose_gpu(&s->options, &s->comm, &s->err);
    describe_machine(h, &s->options, &s->comm, &s->err);
    session_end_startup(s, STARTUP_DEVICE);
    phase_begin("opening A and B", 0);
    if (s->comm.rank == 0) {
        s->described = problem_open(&s->options, s->sources, &s->problem, &s->err) == 0 &&
                       session_choose_moduli(&s->options, &s->problem, &s->err) == 0;
        if (s->described)
            look_back(s);
        else
            output_check(&s->output.names, &s->options, NULL, LEFT_NOTHING, &s->err);
        if (s->options.io == STORE_MAPPED && s->comm.computers > 1) /* whole pages are written */
            error_add(&s->err, EXIT_USAGE,
                      "--io mapped works on one node only; leave --io at auto");
    }
    comm_share(&s->comm, &s->described, sizeof s->described, 0);
    session_share_problem(s);
    comm_share(&s->comm, &s->progress, sizeof s->progress, 0);
    comm_share(&s->comm, &s->complete, sizeof s->complete, 0);
    session_end_startup(s, STARTUP_OPERANDS);
    phase_begin("measuring the disk", 0);
    if (s->described && !s->options.machine[0])
        probe_disk(&h->machine, &s->problem, &s->comm);
    comm_share(&s->comm, &h->machine, sizeof h->machine, 0);
    session_end_startup(s, STARTUP_PROBE);
    phase_begin("planning", 0);
    if (s->described && !s->complete) {
        same_files_check(&s->problem, &s->operands, &s->comm, &s->err);
        if (s->progress.left.count > 0)
            session_plan_all(s);
    }
    comm_agree(&s->comm, &s->err);
    phase_end();
    session_end_startup(s, STARTUP_PLAN);
    return s->err.code;
}
