/* The host panel cache: several threads walk the schedules of random plans, and each reads from the
 * cache what was put there. */
#include "plan_fixture.h"

#include <pthread.h>

#include "cache.h"

enum { THREADS = 4 };

struct walk {
    pthread_mutex_t lock;
    void *window;
    struct cursor cursor;
    struct cache cache;
    int64_t wrong, again;
};

static void open_cache(struct walk *walk, const struct problem *p, const struct plan *plan)
{
    walk->window = calloc(1, cache_bytes(plan) + 1);
    assert_non_null(walk->window);
    cache_init(walk->window, plan);
    cache_open(&walk->cache, walk->window, p, plan);
}

static double value(enum operand operand, int64_t row, int64_t col)
{
    return (double)((row * 1000 + col) * 2 + (int)operand);
}

static void fill(const struct transfer *t, double *memory)
{
    for (int64_t i = 0; i < t->block.rows; i++)
        for (int64_t j = 0; j < t->block.cols; j++)
            *memory++ = value(t->operand, t->block.row + i, t->block.col + j);
}

static int64_t differences(const struct transfer *t, const double *memory)
{
    int64_t count = 0;
    for (int64_t i = 0; i < t->block.rows; i++)
        for (int64_t j = 0; j < t->block.cols; j++)
            count += *memory++ != value(t->operand, t->block.row + i, t->block.col + j);
    return count;
}

static void *reader(void *argument)
{
    struct walk *walk = argument;
    double *slot = malloc(walk->cursor.plan->slot_bytes);
    struct transfer t;
    for (;;) {
        pthread_mutex_lock(&walk->lock);
        bool more = cursor_next(&walk->cursor, &t);
        walk->again += more && t.again;
        pthread_mutex_unlock(&walk->lock);
        if (!more)
            break;
        if (t.again) {
            cache_get(&walk->cache, &t, slot);
            int64_t wrong = differences(&t, slot);
            pthread_mutex_lock(&walk->lock);
            walk->wrong += wrong;
            pthread_mutex_unlock(&walk->lock);
        } else if (t.kept >= 0) {
            fill(&t, slot);
            cache_put(&walk->cache, &t, slot);
        }
    }
    free(slot);
    return NULL;
}

static void test_threads_get_what_was_put(void **state)
{
    (void)state;
    int64_t again = 0;
    for (int trial = 0; trial < 60; trial++) {
        struct problem p =
            make_problem(40 + 7 * trial, 300 - 3 * trial, 50 + 5 * trial, 1 + 2 * (trial % 4));
        struct plan_request request = {.tile_rows = 32 + trial % 5,
                                       .tile_cols = 40 - trial % 7,
                                       .slab = 16 * (1 + trial % 6),
                                       .algorithm = ALGORITHM_CPU};
        struct plan plan;
        struct error err = {0};
        size_t host = ((size_t)3600 + 64 * (size_t)trial) << 10;
        struct machine m = make_machine(1, 1 << 20, host, true);
        assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
        struct walk walk = {.lock = PTHREAD_MUTEX_INITIALIZER};
        pthread_t threads[THREADS];
        cursor_start(&walk.cursor, &p, &plan, 0);
        open_cache(&walk, &p, &plan);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, reader, &walk), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        free(walk.window);
        assert_int_equal(walk.wrong, 0);
        again += walk.again;
    }
    assert_true(again > 1000);
}

static void *waiter(void *argument)
{
    struct walk *walk = argument;
    double slot[512];
    struct transfer t = {.operand = OPERAND_A, .block = {0, 0, 1, 1}, .parts = 1, .again = true};
    cache_get(&walk->cache, &t, slot);
    return NULL;
}

static void test_abort_lets_nobody_wait(void **state)
{
    (void)state;
    struct problem p = make_problem(64, 64, 64, 1);
    struct plan_request request = {
        .tile_rows = 32, .tile_cols = 32, .slab = 16, .algorithm = ALGORITHM_CPU};
    struct machine m = make_machine(1, 1 << 20, 64 << 20, true);
    struct plan plan;
    struct walk walk;
    struct error err = {0};
    pthread_t thread;
    assert_int_equal(plan_make(&p, &m, &request, &plan, &err), 0);
    open_cache(&walk, &p, &plan);
    assert_non_null(walk.cache.state);
    assert_int_equal(pthread_create(&thread, NULL, waiter, &walk), 0);
    cache_abort(&walk.cache);
    pthread_join(thread, NULL);
    free(walk.window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_get_what_was_put),
        cmocka_unit_test(test_abort_lets_nobody_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
