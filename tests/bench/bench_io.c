/* Throughput of the stores and of plain system calls, in GB/s by run length, threads and method.
 *
 *     bench_io DIRECTORY [GIGABYTES [SECONDS]]
 *
 * A matrix with rows of 1 MiB is created in the directory, then read, then written, in blocks whose
 * rows are runs of the given length.  "raw" makes one O_DIRECT call per run from as many threads,
 * with aligned memory.  "mapped" copies to or from a shared mapping of the file, which needs no
 * call but takes a page fault every 4 KiB.  Buffered and mapped reads start with a cold cache;
 * writes end with fdatasync, mappings with munmap.  Every measurement uses its own blocks and
 * ends after SECONDS plus at most one block. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.h"
#include "matfile.h"
#include "meter.h"
#include "store.h"

enum { ROW_BYTES = 1 << 20, SLOT_BYTES = 16 << 20, BLOCK_RUNS = 512, ALIGNMENT = 4096 };
enum { THREADS_MAX = 64, COLS = ROW_BYTES / sizeof(double) };

static struct source source = {.matrix = {.cols = COLS, .elements = SCALAR_DOUBLE}};
static double seconds_each = 0.5;
static char *slots[THREADS_MAX];

enum mover { DIRECT, BUFFERED, RAW, MAPPED, MOVERS };

/* One cell of the table. */
struct cell {
    enum store_mode mode;
    struct store *store; /* direct, buffered */
    int descriptor;      /* raw, mapped */
    char *map;           /* mapped: the whole file */
    struct block first;  /* the others are beside and below it */
    atomic_llong next, bytes;
    double deadline;
};

static void insist(int failed, const struct error *err)
{
    if (failed) {
        fprintf(stderr, "bench_io: %s\n", err ? err->text : "a call of the system failed");
        exit(1);
    }
}

/* Blocks are numbered down one column of blocks, then down the next. */
static struct block block_at(const struct cell *c, int64_t index)
{
    struct block b = c->first;
    int64_t down = source.matrix.rows / b.rows, across = source.matrix.cols / b.cols;
    b.row = index % down * b.rows;
    b.col = index / down % across * b.cols;
    return b;
}

static void move_run(const struct cell *c, uint64_t at, char *memory, size_t bytes)
{
    bool reads = c->mode == STORE_READ;
    if (c->map)
        memcpy(reads ? memory : c->map + at, reads ? c->map + at : memory, bytes);
    else
        insist((reads ? pread(c->descriptor, memory, bytes, (off_t)at)
                      : pwrite(c->descriptor, memory, bytes, (off_t)at)) != (ssize_t)bytes,
               NULL);
}

static void move_block(const struct cell *c, const struct block *b, char *slot)
{
    size_t run = (size_t)b->cols * sizeof(double);
    int64_t count = b->cols == source.matrix.cols ? 1 : b->rows;
    size_t bytes = (size_t)b->rows * run / (size_t)count;
    for (int64_t i = 0; i < count; i++)
        move_run(
            c, source.offset + (uint64_t)(b->row + i) * ROW_BYTES + (size_t)b->col * sizeof(double),
            slot + (size_t)i * bytes, bytes);
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
    while (clock_now() < c->deadline) {
        struct block b = block_at(c, atomic_fetch_add(&c->next, 1));
        if (!c->store)
            move_block(c, &b, w->slot);
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
    int fd = open(source.file, O_RDONLY);
    insist(fd < 0 || fdatasync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), NULL);
    close(fd);
}

static void cell_open(struct cell *c, enum mover mover)
{
    struct error err = {0};
    if (mover <= BUFFERED) {
        enum store_way way = mover == DIRECT ? STORE_DIRECT : STORE_BUFFERED;
        insist(store_open(&source, SCALAR_DOUBLE, c->mode, way, &c->store, &err), &err);
        return;
    }
    c->descriptor = open(source.file, mover == RAW ? O_RDWR | O_DIRECT : O_RDWR);
    insist(c->descriptor < 0, NULL);
    if (mover == MAPPED)
        c->map =
            mmap(NULL, source.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->descriptor, 0);
    insist(c->map == MAP_FAILED, NULL);
}

/* Flush the written data to the disk, and unmap the file. */
static void cell_finish(struct cell *c)
{
    struct error err = {0};
    if (c->mode == STORE_WRITE)
        insist(c->store ? store_sync(c->store, &err) : fdatasync(c->descriptor), &err);
    if (c->map)
        munmap(c->map, source.file_bytes);
}

/* The throughput in GB/s. */
static double measure(enum store_mode mode, enum mover mover, size_t run, int threads)
{
    static int64_t fresh; /* the first unused block */
    int64_t rows = SLOT_BYTES / (int64_t)run;
    struct cell c = {.mode = mode, .next = fresh};
    struct worker workers[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    c.first = (struct block){.rows = rows < BLOCK_RUNS ? rows : BLOCK_RUNS,
                             .cols = (int64_t)(run / sizeof(double))};
    empty_cache();
    cell_open(&c, mover);
    double start = clock_now();
    c.deadline = start + seconds_each;
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){&c, slots[i]};
        insist(pthread_create(&ids[i], NULL, work, &workers[i]), NULL);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    cell_finish(&c);
    double rate = (double)c.bytes / (clock_now() - start) / 1e9;
    fresh = c.next;
    if (!c.store)
        close(c.descriptor);
    store_close(c.store);
    return rate;
}

static void table(enum store_mode mode, const int *threads)
{
    printf("\n%-6s run KiB threads     direct   buffered        raw     mapped   direct / raw\n",
           mode == STORE_READ ? "read" : "write");
    for (size_t run = 8 << 10; run <= ROW_BYTES; run *= run < ROW_BYTES / 2 ? 4 : 2)
        for (const int *t = threads; *t; t++) {
            double rate[MOVERS];
            printf("%6s %7zu %7d", run == ROW_BYTES ? "rows" : "", run >> 10, *t);
            for (int mover = 0; mover < MOVERS; mover++) {
                rate[mover] = measure(mode, (enum mover)mover, run, *t);
                printf(" %10.2f", rate[mover]);
                fflush(stdout);
            }
            printf(" %14.2f\n", rate[DIRECT] / rate[RAW]);
        }
}

static void make(const char *directory, double gigabytes)
{
    static const struct format_layout layout = {0};
    struct store *store;
    struct error err = {0};
    source.matrix.rows = (int64_t)(gigabytes * 1e9 / SLOT_BYTES) * (SLOT_BYTES / ROW_BYTES);
    snprintf(source.file, sizeof source.file, "%s/bench_io.h5", directory);
    snprintf(source.dataset, sizeof source.dataset, "/A");
    unlink(source.file);
    insist(matfile_create(&source, true, &layout, NULL, &err), &err);
    insist(store_open(&source, SCALAR_DOUBLE, STORE_WRITE, STORE_BUFFERED, &store, &err) ||
               store_reserve(store, &err),
           &err);
    struct block b = {.rows = SLOT_BYTES / ROW_BYTES, .cols = COLS};
    for (; b.row < source.matrix.rows; b.row += b.rows)
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
    unlink(source.file);
    return 0;
}
