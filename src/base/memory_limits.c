#include "memory_limits.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

#include "proc.h"

/* The limits of what this process takes, and what states how much that is. */
static const struct memory_limit {
    __rlimit_resource_t what;
    char option;
    const char *taken;
} memory_limits[] = {{RLIMIT_AS, 'v', "VmSize"}, {RLIMIT_DATA, 'd', "VmData"}};

/* What a limit leaves; UINT64_MAX where it is not set. */
static uint64_t left_by(const struct memory_limit *of)
{
    struct rlimit limit;
    uint64_t kib = 0;
    if (getrlimit(of->what, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    proc_number("/proc/self/status", of->taken, &kib);
    return limit.rlim_cur > kib << 10 ? limit.rlim_cur - (kib << 10) : 0;
}

static const struct memory_limit *tightest(void)
{
    const bool data = left_by(&memory_limits[1]) < left_by(&memory_limits[0]);
    return &memory_limits[data];
}

uint64_t memory_limits_left(void)
{
    return left_by(tightest());
}

const char *memory_limits_remedy(char text[MEMORY_LIMITS_TEXT])
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    const struct memory_limit *of = tightest();
    text[0] = '\0';
    if (getrlimit(of->what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, MEMORY_LIMITS_TEXT, " or raise ulimit -%c, which is %llu KiB", of->option,
                 (unsigned long long)limit.rlim_cur >> 10);
    return text;
}
