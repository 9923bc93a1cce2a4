/* A file system without locks, for tests: flock fails with the number in NO_LOCKS, with
 * NO_LOCKS_TO_WRITE only where it would keep others from reading.  Long waits of threads end early,
 * so that a lock's file is touched often. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>

typedef int wait_function(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

enum { LONG_SECONDS = 10 };

int flock(int fd, int operation)
{
    (void)fd;
    if (getenv("NO_LOCKS_TO_WRITE") && !(operation & LOCK_EX))
        return 0;
    errno = atoi(getenv("NO_LOCKS"));
    return -1;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    wait_function *next = (wait_function *)dlvsym(RTLD_NEXT, "pthread_cond_timedwait",
                                                  "GLIBC_2.3.2");
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec++;
    return next(cond, mutex, until->tv_sec > soon.tv_sec + LONG_SECONDS ? &soon : until);
}
