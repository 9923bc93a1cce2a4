#include "rlimits.h"

#include <pthread.h>
#include <sys/resource.h>

#include "error.h"

enum {
    FILES_MOST = 1 << 17,   /* some libraries walk through all */
    STACK_LEAST = 1 << 20,  /* bytes */
    STACK_WANTED = 8 << 20, /* the system's default */
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

/* Later threads have by default what the limit was when the process started. */
static void widen_threads(void)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    if (pthread_getattr_default_np(&attributes))
        return;
    pthread_attr_getstacksize(&attributes, &bytes);
    if (bytes < STACK_LEAST && pthread_attr_setstacksize(&attributes, STACK_LEAST) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

int rlimits_raise(struct error *err)
{
    raise_to(RLIMIT_NOFILE, FILES_MOST);
    const rlim_t stack = raise_to(RLIMIT_STACK, STACK_WANTED);
    widen_threads();
    if (stack >= STACK_LEAST)
        return 0;
    return error_add(err, EXIT_RESOURCES,
                     "a stack may have only %llu KiB here, and %d are needed: raise the limit "
                     "(ulimit -s)",
                     (unsigned long long)stack >> 10, STACK_LEAST >> 10);
}
