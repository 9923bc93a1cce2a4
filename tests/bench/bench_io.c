/* The byte movers against plain calls of the system: GB/s by run length, threads and way.
 *
 *     bench_io DIRECTORY [GIGABYTES [SECONDS]]
 *
 * A matrix with rows of 1 MiB is made in the directory, then read, then written, in blocks whose
 * rows are runs of the given length; "raw" is one O_DIRECT call a run by the same number of threads
 * into aligned memory.  Buffered reading starts with an empty cache; writing ends with fdatasync.
 * Every measurement goes to places of its own and ends after SECONDS, a block at the latest. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "store.h"

enum { ROW_BYTES = 1 << 20, SLOT_BYTES = 16 << 20, BLOCK_RUNS = 512, ALIGNMENT = 4096 };
enum { THREADS_MAX = 64, COLS = ROW_BYTES / sizeof(double) };

static struct matrix_info info = {.cols = COLS, .elements = ELEMENT_DOUBLE};
static double seconds_each = 0.5;
static char *slots[THREADS_MAX];

/* One cell of the table. */
struct cell {
    enum store_mode mode;
    struct store *store; /* null: raw */
    int descriptor;      /* raw */
    struct block first;  /* others lie beside and below it */
    atomic_llong next, bytes;
    double deadline;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void insist(int failed, const struct error *err)
{
    if (failed) {
        fprintf(stderr, "bench_io: %s\n", err ? err->text : "a call of the system failed");
        exit(1);
    }
}

/* Down a column of blocks, then down the next. */
static struct block block_at(const struct cell *c, int64_t index)
{
    struct block b = c->first;
    int64_t down = info.rows / b.rows, across = info.cols / b.cols;
    b.row = index % down * b.rows;
    b.col = index / down % across * b.cols;
    return b;
}

static void move_raw(const struct cell *c, const struct block *b, char *slot)
{
    size_t run = (size_t)b->cols * sizeof(double);
    int64_t count = b->cols == info.cols ? 1 : b->rows;
    size_t bytes = (size_t)b->rows * run / (size_t)count;
    for (int64_t i = 0; i < count; i++) {
        off_t at = (off_t)(info.offset + (uint64_t)(b->row + i) * ROW_BYTES) +
                   (off_t)(b->col * (int64_t)sizeof(double));
        ssize_t moved = c->mode == STORE_READ
                            ? pread(c->descriptor, slot + (size_t)i * bytes, bytes, at)
                            : pwrite(c->descriptor, slot + (size_t)i * bytes, bytes, at);
        insist(moved != (ssize_t)bytes, NULL);
    }
}

struct worker {
    struct cell *cell;
    char *slot;
};

static void *work(void *argument)
{
    struct worker *w = argument;
    struct cell *c = w->cell;
    struct error err = {0};
    while (now() < c->deadline) {
        struct block b = block_at(c, atomic_fetch_add(&c->next, 1));
        if (!c->store)
            move_raw(c, &b, w->slot);
        else if (c->mode == STORE_READ)
            insist(store_read(c->store, &b, w->slot, &err), &err);
        else
            insist(store_write(c->store, &b, w->slot, &err), &err);
        atomic_fetch_add(&c->bytes, b.rows * b.cols * (int64_t)sizeof(double));
    }
    return NULL;
}

static void empty_cache(void)
{
    int fd = open(info.file, O_RDONLY);
    insist(fd < 0 || fdatasync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), NULL);
    close(fd);
}

/* GB/s; way AUTO: raw. */
static double measure(enum store_mode mode, enum store_way way, size_t run, int threads)
{
    static int64_t fresh; /* where nobody has been yet */
    int64_t rows = SLOT_BYTES / (int64_t)run;
    struct cell c = {.mode = mode, .next = fresh};
    struct worker workers[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    struct error err = {0};
    c.first = (struct block){.rows = rows < BLOCK_RUNS ? rows : BLOCK_RUNS,
                             .cols = (int64_t)(run / sizeof(double))};
    empty_cache();
    if (way == STORE_AUTO)
        insist((c.descriptor = open(info.file, O_RDWR | O_DIRECT)) < 0, NULL);
    else
        insist(store_open(&info, SCALAR_DOUBLE, mode, way, &c.store, &err), &err);
    double start = now();
    c.deadline = start + seconds_each;
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){&c, slots[i]};
        insist(pthread_create(&ids[i], NULL, work, &workers[i]), NULL);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    if (mode == STORE_WRITE)
        insist(c.store ? store_sync(c.store, &err) : fdatasync(c.descriptor), &err);
    double rate = (double)c.bytes / (now() - start) / 1e9;
    fresh = c.next;
    store_close(c.store);
    if (!c.store)
        close(c.descriptor);
    return rate;
}

static void table(enum store_mode mode, const int *threads)
{
    printf("\n%-6s run KiB threads     direct   buffered        raw   direct / raw\n",
           mode == STORE_READ ? "read" : "write");
    for (size_t run = 8 << 10; run <= ROW_BYTES; run *= run < ROW_BYTES / 2 ? 4 : 2)
        for (const int *t = threads; *t; t++) {
            double direct = measure(mode, STORE_DIRECT, run, *t);
            double buffered = measure(mode, STORE_BUFFERED, run, *t);
            double raw = measure(mode, STORE_AUTO, run, *t);
            printf("%6s %7zu %7d %10.2f %10.2f %10.2f %14.2f\n", run == ROW_BYTES ? "rows" : "",
                   run >> 10, *t, direct, buffered, raw, direct / raw);
            fflush(stdout);
        }
}

static void make(const char *directory, double gigabytes)
{
    static const struct matfile_layout layout = {0};
    struct store *store;
    struct error err = {0};
    info.rows = (int64_t)(gigabytes * 1e9 / SLOT_BYTES) * (SLOT_BYTES / ROW_BYTES);
    snprintf(info.file, sizeof info.file, "%s/bench_io.h5", directory);
    snprintf(info.dataset, sizeof info.dataset, "/A");
    unlink(info.file);
    insist(matfile_create(&info, true, &layout, NULL, &err), &err);
    insist(store_open(&info, SCALAR_DOUBLE, STORE_WRITE, STORE_BUFFERED, &store, &err) ||
               store_reserve(store, &err),
           &err);
    struct block b = {.rows = SLOT_BYTES / ROW_BYTES, .cols = COLS};
    for (; b.row < info.rows; b.row += b.rows)
        insist(store_write(store, &b, slots[0], &err), &err);
    insist(store_sync(store, &err), &err);
    store_close(store);
}

int main(int argc, char **argv)
{
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), threads[] = {1, 4, cpus < 8 ? 8 : cpus, 0};
    double gigabytes = argc > 2 ? atof(argv[2]) : 4;
    seconds_each = argc > 3 ? atof(argv[3]) : seconds_each;
    if (argc < 2 || gigabytes < 0.1 || seconds_each <= 0 || threads[2] > THREADS_MAX) {
        fprintf(stderr, "usage: bench_io DIRECTORY [GIGABYTES [SECONDS]]\n");
        return 2;
    }
    for (int i = 0; i < threads[2]; i++) {
        slots[i] = aligned_alloc(ALIGNMENT, SLOT_BYTES);
        insist(!slots[i], NULL);
        memset(slots[i], i + 1, SLOT_BYTES);
    }
    make(argv[1], gigabytes);
    printf("GB/s in %s, rows of 1 MiB; a call of the system each run is raw\n", argv[1]);
    table(STORE_READ, threads);
    table(STORE_WRITE, threads);
    unlink(info.file);
    return 0;
}
