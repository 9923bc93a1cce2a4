/* The device of this rank, and the machine that all ranks plan for. */
#include "hardware.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "error.h"
#include "gpu_absence.h"
#include "notice.h"
#include "phase.h"
#include "problem.h"

void hardware_warn_of_cpu(void)
{
    if (gpu_is_present("/sys/bus/pci/devices"))
        notice("the GPU of this computer is not used: %s; give --device cpu if that is what "
               "you want",
               device_gpu_absence());
}

/* The lowest rank without a GPU warns, where other ranks have one or its computer has. */
static void warn_without_gpu(const struct caller *caller, bool have)
{
    const struct comm *comm = caller->comm;
    int without = (int)comm_min(comm, (uint64_t)(have ? comm->size : comm->rank));
    int with = (int)comm_min(comm, (uint64_t)(have ? comm->rank : comm->size));
    if (comm->rank == without && with < comm->size)
        notice("rank %d sees no GPU, but other ranks do, so all compute on the CPU: %s; give "
               "--device gpu to stop instead",
               without, device_gpu_absence());
    else if (comm->rank == without)
        hardware_warn_of_cpu();
}

/* The GPU that this rank computes on, or -1 for the CPU.  All ranks use the same kind. */
static int choose_gpu(const struct caller *caller, struct error *err)
{
    const struct options *o = caller->options;
    const struct comm *comm = caller->comm;
    const struct kernel *wanted = o->algorithm == ALGORITHM_AUTO ? NULL : kernels[o->algorithm];
    bool must = o->device == CHOOSE_GPU || (wanted && !wanted->on_cpu);
    bool may = must || (o->device == CHOOSE_AUTO && (!wanted || wanted->on_gpu));
    int gpus = may ? device_gpu_count() : 0;
    bool all_have = comm_min(comm, (uint64_t)gpus) > 0;
    if (must && gpus == 0)
        error_add(err, EXIT_RESOURCES, "no GPU can be used here: %s; give --device cpu to use none",
                  device_gpu_absence());
    if (may && !must)
        warn_without_gpu(caller, gpus > 0);
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

static void describe_machine(const struct caller *caller, struct hardware *h, struct error *err)
{
    const struct options *o = caller->options;
    const struct comm *comm = caller->comm;
    struct device_info info = {0};
    bool gpu = h->gpu >= 0 && device_gpu_info(h->gpu, &info, err) == 0;
    struct machine *m = &h->machine;
    struct share share = {.ranks = comm->size,
                          .local_ranks = comm->local_size,
                          .device = gpu ? &info : NULL,
                          .sharing = count_sharing(comm, &info)};
    /* Threads are started later, and inherit the binding. */
    placement_bind(comm, info.pci, o->bind, &h->placement);
    share.cpus = h->placement.threads;
    machine_probe(o, &share, m);
    if (gpu && share.sharing == 1)
        machine_see_link(device_gpu_link(h->gpu), m);
    if (o->resources.machine[0]) {
        machine_read(&o->resources, m, err);
        m->gpu = gpu;
        m->ranks = comm->size;
    }
    machine_check_memory(&o->resources, &share, m, err);
    m->ranks_per_node = comm->node_size;
    m->device_memory = comm_min(comm, m->device_memory); /* one plan for all ranks */
    m->host_memory = comm_min(comm, m->host_memory);
    m->threads = (int)comm_min(comm, (uint64_t)m->threads);
    /* As rank 0 has them, which makes C's file: on other ranks its folder may not be there. */
    comm_share(comm, &m->output_in_memory, sizeof m->output_in_memory, 0);
    comm_share(comm, &m->disk_write_bytes_per_s, sizeof m->disk_write_bytes_per_s, 0);
    agree_on_link(comm, m);
}

int hardware_find(const struct caller *caller, struct hardware *h, struct error *err)
{
    phase_begin("looking for devices", 0);
    *h = (struct hardware){.gpu = choose_gpu(caller, err)};
    describe_machine(caller, h, err);
    return err->code;
}

int hardware_find_host(const struct caller *caller, struct hardware *h, struct error *err)
{
    const struct options *o = caller->options;
    const struct comm *comm = caller->comm;
    *h = (struct hardware){.gpu = -1};
    placement_bind(comm, "", o->bind, &h->placement);
    const struct share share = {
        .ranks = comm->size, .local_ranks = comm->local_size, .cpus = h->placement.threads};
    machine_probe(o, &share, &h->machine);
    return machine_check_memory(&o->resources, &share, &h->machine, err);
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

/* Likewise, all at the same time: the slowest rank counts for all. */
static void probe_products(struct machine *m, const struct problem *p, const struct comm *comm)
{
    comm_barrier(comm);
    const double rate = machine_probe_products(p, comm->local_size, m);
    machine_see_products((double)comm_min(comm, (uint64_t)rate), p->type, m);
}

void hardware_probe(const struct caller *caller, const struct problem *p, struct hardware *h)
{
    phase_begin("measuring rates", 0);
    if (!caller->options->resources.machine[0]) {
        probe_disk(&h->machine, p, caller->comm);
        probe_products(&h->machine, p, caller->comm);
    }
    comm_share(caller->comm, &h->machine, sizeof h->machine, 0);
}

int hardware_open(const struct caller *caller, struct hardware *h, enum algorithm algorithm,
                  int threads, struct error *err)
{
    phase_begin("opening the device", 0);
    if (h->gpu >= 0)
        device_gpu_open(h->gpu, algorithm, &h->device, err);
    else
        device_cpu_open(threads, &h->device, err);
    if (h->device)
        snprintf(h->placement.device, sizeof h->placement.device, "%s", h->device->info.name);
    h->placements = placement_gather(caller->comm, &h->placement);
    phase_end();
    return comm_agree(caller->comm, err);
}

void hardware_close(struct hardware *h)
{
    if (h->device)
        h->device->close(h->device);
    h->device = NULL;
}
