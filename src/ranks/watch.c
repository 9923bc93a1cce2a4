#include "watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"
#include "error.h"
#include "leftovers.h"
#include "lock.h"
#include "notice.h"
#include "waits.h"
#include "window.h"

enum { STALL_SECONDS = 60 };

/* Of two containers, processes may be numbered each by its own. */
struct process {
    pid_t number;
    ino_t space;
};

static struct {
    const struct comm *comm;
    struct process *processes; /* of the computer's ranks */
    int count, mine, first;    /* the number of the first of them */
    struct window window;      /* what the ranks of the node wait for */
    bool watching, ending;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

static struct process this_process(void)
{
    struct stat space;
    bool known = stat("/proc/self/ns/pid", &space) == 0;
    return (struct process){getpid(), known ? space.st_ino : 0};
}

static bool is_dead(int i)
{
    const struct process *p = &watch.processes[i];
    return p->space == watch.processes[watch.mine].space && kill(p->number, 0) != 0 &&
           errno == ESRCH;
}

/* The first of the computer's ranks that lives speaks for all. */
static void leave(int dead)
{
    int speaker = 0;
    while (speaker < watch.mine && is_dead(speaker))
        speaker++;
    if (speaker == watch.mine)
        notice("rank %d (process %d) has died, perhaps killed for lack of memory; the run ends, "
               "since it needs all ranks",
               watch.first + dead, (int)watch.processes[dead].number);
    leftovers_remove();
    lock_abandon();
    comm_abort(watch.comm, EXIT_RUNTIME);
}

static void *look(void *ignored)
{
    (void)ignored;
    pthread_mutex_lock(&watch.lock);
    while (!watch.ending) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&watch.end, &watch.lock, &until);
        for (int i = 0; i < watch.count && !watch.ending; i++)
            if (is_dead(i))
                leave(i);
        if (!watch.ending)
            waits_look();
    }
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

void watch_begin(const struct comm *comm)
{
    struct process mine = this_process();
    struct error err = {0};
    if (window_open(&watch.window, comm, (size_t)comm->node_size * sizeof(struct waits), &err)) {
        notice("rank %d: %s", comm->rank, err.text);
        comm_abort(comm, err.code);
    }
    waits_open((struct waits *)watch.window.memory, comm->node_size, comm->node_rank,
               comm->rank - comm->node_rank, STALL_SECONDS);
    watch.comm = comm;
    watch.processes = comm_local_gather(comm, &mine, sizeof mine);
    watch.count = comm->local_size;
    watch.mine = comm->local_rank;
    watch.first = comm->rank - comm->local_rank;
    if (comm->size == 1)
        return;
    int status = pthread_create(&watch.thread, NULL, look, NULL);
    watch.watching = status == 0;
    if (status)
        notice("rank %d cannot watch the others (%s): if one dies, you may have to end the job "
               "yourself",
               comm->rank, strerror(status));
}

void watch_end(void)
{
    if (watch.watching) {
        pthread_mutex_lock(&watch.lock);
        watch.ending = true;
        pthread_cond_signal(&watch.end);
        pthread_mutex_unlock(&watch.lock);
        pthread_join(watch.thread, NULL);
    }
    waits_close();
    window_close(&watch.window);
    free(watch.processes);
    watch.processes = NULL;
}
