/* Each request needs one of POOL_WIDTH buffers.  The pool's threads and the callers of pool_run
 * take the next request of the queue whenever a buffer is free; the runs in the queue are served
 * round-robin.  There are enough threads to use all buffers while every caller waits. */
#include "pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { THREAD_STACK = 32 << 10 }; /* bytes of its stack that a thread touches */

/* A run.  It lives on the stack of the thread that called pool_run. */
struct queued {
    pool_request *request;
    void *context;
    int64_t next, count; /* equal when no more requests are to start */
    int active;          /* requests in flight */
    struct error *err;
    struct queued *later;
    pthread_cond_t done;
};

static struct {
    pthread_mutex_t life; /* guards users, memory and threads */
    int users, threads;
    char *memory;
    pthread_t thread[POOL_WIDTH];

    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t work;
    bool stop;
    struct queued *first, **last; /* runs with requests that have not started */
    char *buffers[POOL_WIDTH];    /* free ones */
    int free;
} pool = {.life = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .last = &pool.first};

static bool has_work(void)
{
    return pool.first && pool.free > 0;
}

static void append(struct queued *queued)
{
    queued->later = NULL;
    *pool.last = queued;
    pool.last = &queued->later;
}

static void remove_queued(struct queued *queued)
{
    struct queued **place = &pool.first;
    while (*place && *place != queued)
        place = &(*place)->later;
    if (*place)
        *place = queued->later;
    if (!*place)
        pool.last = place;
}

/* Execute the next request.  Called with the lock held, which is released meanwhile. */
static void work_on(void)
{
    struct queued *queued = pool.first;
    char *buffer = pool.buffers[--pool.free];
    int64_t index = queued->next++;
    struct error err = {0};
    remove_queued(queued);
    if (queued->next < queued->count)
        append(queued);
    queued->active++;
    pthread_mutex_unlock(&pool.lock);
    queued->request(queued->context, index, buffer, &err);
    pthread_mutex_lock(&pool.lock);
    pool.buffers[pool.free++] = buffer;
    if (err.code && !queued->err->code)
        *queued->err = err;
    if (err.code) {
        queued->next = queued->count;
        remove_queued(queued);
    }
    if (--queued->active == 0 && queued->next == queued->count)
        pthread_cond_signal(&queued->done);
}

static void *work(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    while (!pool.stop)
        if (has_work())
            work_on();
        else
            pthread_cond_wait(&pool.work, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

int pool_run(pool_request *request, void *context, int64_t count, struct error *err)
{
    struct queued queued = {.request = request,
                            .context = context,
                            .count = count,
                            .err = err,
                            .done = PTHREAD_COND_INITIALIZER};
    if (count == 0)
        return err->code;
    pthread_mutex_lock(&pool.lock);
    append(&queued);
    for (int64_t i = 1; i < count && i < pool.free; i++)
        pthread_cond_signal(&pool.work);
    while (queued.next < queued.count || queued.active > 0)
        if (has_work())
            work_on();
        else
            pthread_cond_wait(&queued.done, &pool.lock);
    if (has_work())
        pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    pthread_cond_destroy(&queued.done);
    return err->code;
}

static void end(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.stop = true;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    while (pool.threads > 0)
        pthread_join(pool.thread[--pool.threads], NULL);
    free(pool.memory);
}

/* No other thread uses the pool before this has started its threads, so the lock is not needed. */
static int start(struct error *err)
{
    pool.memory = aligned_alloc(POOL_ALIGNMENT, (size_t)POOL_WIDTH * POOL_BUFFER);
    pool.stop = false;
    for (pool.free = 0; pool.memory && pool.free < POOL_WIDTH; pool.free++)
        pool.buffers[pool.free] = pool.memory + (size_t)pool.free * POOL_BUFFER;
    while (pool.threads < pool.free &&
           pthread_create(&pool.thread[pool.threads], NULL, work, NULL) == 0)
        pool.threads++;
    if (pool.threads > 0)
        return 0;
    free(pool.memory);
    return error_add(err, EXIT_RESOURCES, "no memory or threads for direct I/O");
}

int pool_acquire(struct error *err)
{
    pthread_mutex_lock(&pool.life);
    int rc = pool.users == 0 ? start(err) : 0;
    pool.users += rc == 0;
    pthread_mutex_unlock(&pool.life);
    return rc;
}

void pool_release(void)
{
    pthread_mutex_lock(&pool.life);
    if (--pool.users == 0)
        end();
    pthread_mutex_unlock(&pool.life);
}

size_t pool_bytes(void)
{
    return (size_t)POOL_WIDTH * (POOL_BUFFER + THREAD_STACK);
}
