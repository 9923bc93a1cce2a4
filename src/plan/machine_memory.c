/* How much memory of the host there is to be had. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "machine.h"
#include "options.h"
#include "proc.h"
#include "quantity.h"

/* The least that a control group and those around it allow.  Where the process sees its own as the
 * root, as in most containers, `group` is "/" or leads to none. */
static uint64_t group_limit(const char *root, char *group, const char *file)
{
    uint64_t least = UINT64_MAX, limit;
    char path[4608];
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", root, group, file);
        if (proc_number(path, "", &limit) && limit < least)
            least = limit;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* What the process's control groups allow, of version 2 ("0::/path") or 1 ("4:memory:/path"). */
static uint64_t groups_limit(void)
{
    uint64_t least = UINT64_MAX;
    char line[4096];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *path = strchr(line, '/'), *memory = strstr(line, "memory");
        line[strcspn(line, "\n")] = '\0';
        uint64_t limit = UINT64_MAX;
        if (path && strncmp(line, "0::", 3) == 0)
            limit = group_limit("/sys/fs/cgroup", path, "memory.max");
        else if (path && memory && memory < path)
            limit = group_limit("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
        least = limit < least ? limit : least;
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t machine_host_memory(void)
{
    uint64_t bytes = (uint64_t)4 << 30, limit = groups_limit(), kib;
    if (proc_number("/proc/meminfo", "MemAvailable", &kib))
        bytes = kib * 1024;
    return limit < bytes ? limit : bytes;
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

int machine_check_memory(const struct options *o, int local_ranks, const struct device_info *device,
                         int sharing, const struct machine *m, struct error *err)
{
    uint64_t group = groups_limit(), total = UINT64_MAX, kib;
    if (proc_number("/proc/meminfo", "MemTotal", &kib))
        total = kib * 1024;
    check_limit(o->host_memory ? "--host-memory" : "host_memory_bytes of --machine", m->host_memory,
                local_ranks, group < total ? "the memory control group" : "this computer",
                group < total ? group : total, err);
    if (device)
        check_limit(o->gpu_memory ? "--gpu-memory" : "device_memory_bytes of --machine",
                    m->device_memory, sharing, "the GPU", device->memory_total, err);
    else if (o->gpu_memory && !m->gpu)
        check_limit("--gpu-memory", m->device_memory, local_ranks, "this computer", total, err);
    return err->code;
}
