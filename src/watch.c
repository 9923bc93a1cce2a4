#include "watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"
#include "error.h"

static struct {
    pid_t *processes;       /* of the node's ranks; null: nothing is watched */
    int count, mine, first; /* the first rank of the node */
    bool ending;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

static bool is_dead(int i)
{
    return kill(watch.processes[i], 0) != 0 && errno == ESRCH;
}

/* The first of the node's ranks that lives speaks for all. */
static void leave(int dead)
{
    int speaker = 0;
    while (speaker < watch.mine && is_dead(speaker))
        speaker++;
    if (speaker == watch.mine)
        fprintf(stderr,
                "dgemm_ooc: rank %d (process %d) has died; the run ends, since nobody can go on "
                "without it\n",
                watch.first + dead, (int)watch.processes[dead]);
    _exit(EXIT_RUNTIME);
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
    }
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

void watch_begin(const struct comm *comm)
{
    if (comm->node_size == 1)
        return;
    watch.processes = calloc((size_t)comm->node_size, sizeof *watch.processes);
    if (!watch.processes)
        return;
    watch.count = comm->node_size;
    watch.mine = comm->node_rank;
    watch.first = comm->rank - comm->node_rank;
    for (int i = 0; i < watch.count; i++) {
        watch.processes[i] = getpid();
        comm_node_share(comm, &watch.processes[i], sizeof watch.processes[i], i);
    }
    if (pthread_create(&watch.thread, NULL, look, NULL)) {
        free(watch.processes);
        watch.processes = NULL;
    }
}

void watch_end(void)
{
    if (!watch.processes)
        return;
    pthread_mutex_lock(&watch.lock);
    watch.ending = true;
    pthread_cond_signal(&watch.end);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    free(watch.processes);
    watch.processes = NULL;
}
