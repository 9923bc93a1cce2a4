/* How much of the host there is to be had: CPUs and memory. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control_group.h"
#include "error.h"
#include "machine.h"
#include "memory_limits.h"
#include "options.h"
#include "proc.h"
#include "quantity.h"

int machine_threads(int cpus, int ranks)
{
    const char *wanted = getenv("OMP_NUM_THREADS");
    if (wanted && atoi(wanted) > 0)
        return atoi(wanted);
    cpus = (int)min_i64(cpus, ceil_div(control_group_cpus(), ranks));
    return cpus > 1 ? cpus : 1;
}

int machine_cpus(void)
{
    cpu_set_t set;
    int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : online;
}

uint64_t machine_host_memory(void)
{
    uint64_t bytes = (uint64_t)4 << 30, limit = control_group_memory(), kib;
    if (proc_number("/proc/meminfo", "MemAvailable", &kib))
        bytes = kib * 1024;
    return limit < bytes ? limit : bytes;
}

uint64_t machine_usual_memory(int local_ranks)
{
    const uint64_t share = machine_host_memory() / (uint64_t)local_ranks,
                   left = memory_limits_left();
    return (left < share ? left : share) / 2;
}

/* A limit beyond what this process may have. */
static void check_own(const char *by, size_t limit, struct error *err)
{
    const uint64_t left = memory_limits_left();
    char text[MEMORY_LIMITS_TEXT];
    if (limit > left)
        error_add(
            err, EXIT_RESOURCES,
            "%s of %s is more than this process's own limit leaves (%s): give at most %" PRIu64
            "M,%s",
            by, quantity_bytes((double)limit), quantity_bytes((double)left), left / 2 >> 20,
            memory_limits_remedy(text));
}

/* A limit for each of `ranks` ranks that share `total` bytes. */
static void check_limit(const char *by, size_t limit, int ranks, const char *owner, uint64_t total,
                        struct error *err)
{
    char each[64] = "";
    if (limit <= total / (uint64_t)ranks)
        return;
    if (ranks > 1)
        snprintf(each, sizeof each, " for each of the %d ranks that share it", ranks);
    error_add(err, EXIT_RESOURCES, "%s of %s%s is more than %s has (%s): give at most %" PRIu64 "M",
              by, quantity_bytes((double)limit), each, owner, quantity_bytes((double)total),
              total / (uint64_t)ranks >> 20);
}

int machine_check_memory(const struct resources *resources, const struct share *share,
                         const struct machine *m, struct error *err)
{
    uint64_t group = control_group_memory(), total = UINT64_MAX, kib;
    if (proc_number("/proc/meminfo", "MemTotal", &kib))
        total = kib * 1024;
    const char *by = resources->host_memory ? "--host-memory" : "host_memory_bytes of --machine";
    check_own(by, m->host_memory, err);
    check_limit(by, m->host_memory, share->local_ranks,
                group < total ? "the memory control group" : "this computer",
                group < total ? group : total, err);
    if (share->device)
        check_limit(resources->gpu_memory ? "--gpu-memory" : "device_memory_bytes of --machine",
                    m->device_memory, share->sharing, "the GPU", share->device->memory_total, err);
    else if (resources->gpu_memory && !m->gpu)
        check_limit("--gpu-memory", m->device_memory, share->local_ranks, "this computer", total,
                    err);
    return err->code;
}
