/* The pool of I/O threads: each request is served once, with bounded concurrency. */
#include "scratch.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "pool.h"

enum { CALLERS = 40, REQUESTS = 500, NONE = -1, FEW = POOL_WIDTH - 3, WAIT_S = 60 };

/* All requests of a test, from all callers. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int active, most, meeting; /* requests; `meeting`: must be in flight together before one ends */
    bool late;                 /* they were not, in time */
    char *buffers[POOL_WIDTH]; /* of active requests */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The requests of one caller. */
struct asked {
    int64_t count, bad; /* the one that fails */
    atomic_int done[REQUESTS];
    atomic_int total, wrong; /* wrong: the buffer is in use or not as promised */
    struct error err;
};

static void see_nothing(int meeting)
{
    pthread_mutex_lock(&seen.lock);
    seen.most = 0;
    seen.meeting = meeting;
    seen.late = false;
    pthread_mutex_unlock(&seen.lock);
}

static bool is_new(const char *buffer)
{
    for (int i = 0; i < seen.active; i++)
        if (seen.buffers[i] == buffer)
            return false;
    return (uintptr_t)buffer % POOL_ALIGNMENT == 0 && seen.active < POOL_WIDTH;
}

static void meet(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    pthread_cond_broadcast(&seen.changed);
    while (seen.most < seen.meeting && !seen.late)
        seen.late = pthread_cond_timedwait(&seen.changed, &seen.lock, &end) != 0;
}

static void enter(struct asked *asked, char *buffer)
{
    pthread_mutex_lock(&seen.lock);
    if (is_new(buffer))
        seen.buffers[seen.active] = buffer;
    else
        asked->wrong++;
    seen.active++;
    seen.most = seen.active > seen.most ? seen.active : seen.most;
    meet();
    pthread_mutex_unlock(&seen.lock);
}

static void leave(char *buffer)
{
    pthread_mutex_lock(&seen.lock);
    seen.active--;
    for (int i = 0; i < seen.active; i++)
        if (seen.buffers[i] == buffer)
            seen.buffers[i] = seen.buffers[seen.active];
    pthread_mutex_unlock(&seen.lock);
}

static void request(void *context, int64_t index, char *buffer, struct error *err)
{
    struct asked *asked = context;
    enter(asked, buffer);
    memset(buffer, (int)index, POOL_BUFFER);
    asked->done[index]++;
    asked->total++;
    if (index == asked->bad)
        error_add(err, EXIT_RUNTIME, "request %d is bad", (int)index);
    asked->wrong += buffer[0] != (char)index || buffer[POOL_BUFFER - 1] != (char)index;
    leave(buffer);
}

static void *ask(void *argument)
{
    struct asked *asked = argument;
    pool_run(request, asked, asked->count, &asked->err);
    return NULL;
}

static void all_done(struct asked *asked)
{
    succeed(asked->err.code, &asked->err);
    assert_int_equal(asked->wrong, 0);
    for (int64_t i = 0; i < asked->count; i++)
        assert_int_equal(asked->done[i], 1);
    assert_int_equal(asked->total, asked->count);
}

static void acquire(void)
{
    struct error err = {0};
    succeed(pool_acquire(&err), &err);
}

static int threads(void)
{
    int count = -2; /* exclude . and .. */
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

/* Many requests of one caller are in flight together. */
static void test_one_caller(void **state)
{
    (void)state;
    acquire();
    for (int64_t count = 0; count <= REQUESTS; count = 2 * count + 1) {
        struct asked asked = {.count = count, .bad = NONE};
        int together = (int)(count < POOL_WIDTH ? count : POOL_WIDTH);
        see_nothing(together);
        ask(&asked);
        all_done(&asked);
        assert_false(seen.late);
        assert_int_equal(seen.most, together);
    }
    pool_release();
}

static void start(pthread_t *ids, struct asked *asked, int callers)
{
    for (int i = 0; i < callers; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, ask, &asked[i]), 0);
}

static void join(const pthread_t *ids, int callers)
{
    for (int i = 0; i < callers; i++)
        pthread_join(ids[i], NULL);
}

/* With many callers, as many requests are in flight as with one, and no more; each caller gets its
 * own error. */
static void test_many_callers(void **state)
{
    (void)state;
    static struct asked asked[CALLERS];
    pthread_t ids[CALLERS];
    acquire();
    see_nothing(POOL_WIDTH);
    for (int i = 0; i < CALLERS; i++)
        asked[i] = (struct asked){.count = i % 4 ? i : REQUESTS, .bad = i % 5 == 3 ? i / 2 : NONE};
    start(ids, asked, CALLERS);
    join(ids, CALLERS);
    assert_false(seen.late);
    assert_int_equal(seen.most, POOL_WIDTH);
    for (int i = 0; i < CALLERS; i++) {
        char text[40];
        if (asked[i].bad == NONE) {
            all_done(&asked[i]);
            continue;
        }
        snprintf(text, sizeof text, "request %d is bad", i / 2);
        complained(&asked[i].err, EXIT_RUNTIME, text);
        assert_int_equal(asked[i].err.complaints, 1);
        assert_int_equal(asked[i].done[i / 2], 1);
    }
    pool_release();
}

static void fail_first(void *context, int64_t index, char *buffer, struct error *err)
{
    (void)buffer;
    atomic_int *total = context;
    (*total)++;
    if (index == 0)
        error_add(err, EXIT_RESOURCES, "the first one fails");
}

/* After a failure no further request starts, and the pool remains usable. */
static void test_failure(void **state)
{
    (void)state;
    enum { VERY_MANY = 10000000 };
    struct error err = {0};
    atomic_int total = 0;
    acquire();
    assert_int_equal(pool_run(fail_first, &total, VERY_MANY, &err), EXIT_RESOURCES);
    complained(&err, EXIT_RESOURCES, "the first one fails");
    assert_in_range(total, 1, VERY_MANY - 1);
    for (int bad = 0; bad < REQUESTS; bad += 99) {
        struct asked asked = {.count = REQUESTS, .bad = bad};
        see_nothing(0);
        ask(&asked);
        complained(&asked.err, EXIT_RUNTIME, "is bad");
        assert_int_equal(seen.active, 0);
        assert_int_equal(asked.wrong, 0);
        assert_true(asked.done[bad] == 1);
        struct asked next = {.count = REQUESTS, .bad = NONE};
        ask(&next);
        all_done(&next);
    }
    pool_release();
}

/* Slow requests on some threads do not block the other threads. */
static void test_one_that_is_slow(void **state)
{
    (void)state;
    static struct asked slow, quick[3];
    pthread_t id, ids[3];
    acquire();
    slow = (struct asked){.count = FEW, .bad = NONE};
    see_nothing(FEW + 3);
    start(&id, &slow, 1);
    pthread_mutex_lock(&seen.lock);
    while (seen.active < FEW)
        pthread_cond_wait(&seen.changed, &seen.lock);
    pthread_mutex_unlock(&seen.lock);
    for (int i = 0; i < 3; i++)
        quick[i] = (struct asked){.count = 1, .bad = NONE};
    start(ids, quick, 3);
    join(ids, 3);
    join(&id, 1);
    assert_false(seen.late);
    all_done(&slow);
    for (int i = 0; i < 3; i++)
        all_done(&quick[i]);
    pool_release();
}

enum { MANY = 3000000 };

static struct {
    atomic_bool asked, served;
    atomic_int begun; /* of the long run */
    int before;       /* value of `begun` when the short run's request started */
} turns;

/* A request of the long run, which is queued before the short run starts, and ends with it. */
static void long_request(void *context, int64_t index, char *buffer, struct error *err)
{
    (void)context, (void)index, (void)buffer;
    turns.begun++;
    while (!turns.asked)
        sched_yield();
    if (turns.served)
        error_add(err, EXIT_RUNTIME, "the short run was served");
}

static void short_request(void *context, int64_t index, char *buffer, struct error *err)
{
    (void)context, (void)index, (void)buffer, (void)err;
    turns.before = turns.begun;
    turns.served = true;
}

static void *run_long(void *context)
{
    (void)context;
    struct error err = {0};
    pool_run(long_request, NULL, MANY, &err);
    return NULL;
}

/* A short run is served although a long one was queued before it. */
static void test_turns(void **state)
{
    (void)state;
    struct error err = {0};
    pthread_t id;
    acquire();
    assert_int_equal(pthread_create(&id, NULL, run_long, NULL), 0);
    while (turns.begun < POOL_WIDTH)
        sched_yield();
    turns.asked = true;
    assert_int_equal(pool_run(short_request, NULL, 1, &err), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
    assert_in_range(turns.before, POOL_WIDTH, MANY / 2);
    pool_release();
}

/* All users share one set of threads, which exists as long as there are users. */
static void test_users(void **state)
{
    (void)state;
    int before = threads();
    for (int again = 0; again < 20; again++) {
        struct asked asked = {.count = REQUESTS, .bad = NONE};
        see_nothing(0);
        acquire();
        int with = threads();
        acquire();
        acquire();
        assert_int_equal(threads(), with);
        assert_in_range(with, before + 1, before + POOL_WIDTH);
        pool_release();
        pool_release();
        ask(&asked);
        all_done(&asked);
        pool_release();
    }
    for (int i = 0; i < WAIT_S && threads() > before; i++)
        sleep(1); /* a joined thread may still be in /proc for a moment */
    assert_int_equal(threads(), before);
    assert_true(pool_bytes() >= (size_t)POOL_WIDTH * POOL_BUFFER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_caller), cmocka_unit_test(test_many_callers),
        cmocka_unit_test(test_failure),    cmocka_unit_test(test_one_that_is_slow),
        cmocka_unit_test(test_turns),      cmocka_unit_test(test_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
