#include "rlimits.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "error.h"
#include "memory_limits.h"

enum {
    FILES_LEAST = 64,       /* MPI and HDF5 have 40 themselves */
    FILES_MOST = 1 << 17,   /* some libraries walk through all */
    STACK_LEAST = 1 << 20,  /* bytes */
    STACK_WANTED = 8 << 20, /* the system's default */
    LEFT_LEAST = 80 << 20,  /* bytes: with less, libraries crash instead of failing */
};

/* Raise the soft limit to `wanted`, or as far as is allowed.  Returns what it is then. */
static rlim_t raise_to(__rlimit_resource_t what, rlim_t wanted)
{
    struct rlimit limit;
    if (getrlimit(what, &limit))
        return RLIM_INFINITY;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(what, &limit);
    }
    return limit.rlim_cur;
}

static bool is_limited(void)
{
    return memory_limits_left() < UINT64_MAX;
}

/* Later threads have by default what the limit was when the process started, which is too little
 * or, where addresses are limited, too much: mostly 8 MiB each, and a heap of 64 MiB. */
static void fit_threads(void)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    if (is_limited())
        mallopt(M_ARENA_MAX, 1);
    if (pthread_getattr_default_np(&attributes))
        return;
    pthread_attr_getstacksize(&attributes, &bytes);
    if ((bytes < STACK_LEAST || is_limited()) &&
        pthread_attr_setstacksize(&attributes, STACK_LEAST) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

uint64_t rlimits_file_bytes(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

int rlimits_raise(struct error *err)
{
    char text[MEMORY_LIMITS_TEXT];
    const rlim_t files = raise_to(RLIMIT_NOFILE, FILES_MOST);
    const rlim_t stack = raise_to(RLIMIT_STACK, STACK_WANTED);
    fit_threads();
    if (files < FILES_LEAST)
        error_add(
            err, EXIT_RESOURCES,
            "only %llu files may be open here, and %d are needed: raise the limit (ulimit -n)",
            (unsigned long long)files, FILES_LEAST);
    if (stack < STACK_LEAST)
        error_add(err, EXIT_RESOURCES,
                  "a stack may have only %llu KiB here, and %d are needed: raise the limit "
                  "(ulimit -s)",
                  (unsigned long long)stack >> 10, STACK_LEAST >> 10);
    if (memory_limits_left() < LEFT_LEAST)
        error_add(err, EXIT_RESOURCES,
                  "a limit leaves this process only %" PRIu64 " MiB beside its libraries, and at "
                  "least %d are needed: do without it,%s",
                  memory_limits_left() >> 20, LEFT_LEAST >> 20, memory_limits_remedy(text));
    return err->code;
}
