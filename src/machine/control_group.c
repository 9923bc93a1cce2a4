#include "control_group.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proc.h"

enum { PATH_BYTES = 4608 };

/* What a group's folder states; infinity where it states no limit. */
typedef double limit_read(const char *folder);

struct controller {
    const char *name; /* of version 1, and of the folder that its groups are in */
    limit_read *of_v1, *of_v2;
};

/* The first number of a file; infinity for "max", and where there is none. */
static double number_in(const char *folder, const char *file)
{
    char path[PATH_BYTES];
    uint64_t value;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return proc_number(path, "", &value) ? (double)value : INFINITY;
}

static double memory_v1(const char *folder)
{
    return number_in(folder, "memory.limit_in_bytes");
}

static double memory_v2(const char *folder)
{
    return number_in(folder, "memory.max");
}

/* Without a quota it is -1, or "max". */
static double share(const char *quota, double period)
{
    double microseconds = 0;
    return sscanf(quota, "%lf", &microseconds) == 1 && microseconds > 0 && period > 0
               ? microseconds / period
               : INFINITY;
}

static double cpus_v1(const char *folder)
{
    char path[PATH_BYTES], quota[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    return proc_text(path, "", quota, sizeof quota)
               ? share(quota, number_in(folder, "cpu.cfs_period_us"))
               : INFINITY;
}

/* "QUOTA PERIOD" */
static double cpus_v2(const char *folder)
{
    char path[PATH_BYTES], text[64], quota[64];
    double period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    return proc_text(path, "", text, sizeof text) && sscanf(text, "%63s %lf", quota, &period) == 2
               ? share(quota, period)
               : INFINITY;
}

/* The least that a control group and those around it allow.  Where the process sees its own as the
 * root, as in most containers, `group` is "/" or leads to none. */
static double least_of(const char *root, char *group, limit_read *limit)
{
    double least = INFINITY;
    char folder[PATH_BYTES];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", root, group);
        least = fmin(least, limit(folder));
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* Whether a list, "cpu,cpuacct", has the name. */
static bool has_name(char *list, const char *name)
{
    char *rest, *each = strtok_r(list, ",", &rest);
    while (each && strcmp(each, name) != 0)
        each = strtok_r(NULL, ",", &rest);
    return each;
}

/* What a line says of the process's groups, of version 2 ("0::/path") or 1 ("4:memory:/path"). */
static double limit_of_line(char *line, const struct controller *controller)
{
    char root[64], *names = strchr(line, ':'), *path = strchr(line, '/');
    if (!names || !path || path[-1] != ':')
        return INFINITY;
    path[strcspn(path, "\n")] = '\0';
    path[-1] = *names++ = '\0';
    if (!*names)
        return least_of("/sys/fs/cgroup", path, controller->of_v2);
    snprintf(root, sizeof root, "/sys/fs/cgroup/%s", controller->name);
    return has_name(names, controller->name) ? least_of(root, path, controller->of_v1) : INFINITY;
}

static double limit_of(const struct controller *controller)
{
    double least = INFINITY;
    char line[4096];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file))
        least = fmin(least, limit_of_line(line, controller));
    if (file)
        fclose(file);
    return least;
}

uint64_t control_group_memory(void)
{
    static const struct controller memory = {"memory", memory_v1, memory_v2};
    const double bytes = limit_of(&memory);
    return bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}

int control_group_cpus(void)
{
    static const struct controller cpu = {"cpu", cpus_v1, cpus_v2};
    const double cpus = ceil(limit_of(&cpu));
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}
