/* Rates of store_read on chunked and compressed matrices, compared with H5Dread and with a
 * contiguous matrix.
 *
 *     bench_chunks [SIZE [THREADS [FOLDER]]]        SIZE: rows and columns; THREADS 0: all CPUs
 *
 * The whole matrix is read from the page cache as the program reads it, in slot-sized parts that
 * follow the chunks.  Rates count decoded bytes and are the best of a few repetitions; those of one
 * thread are per second of CPU time, so that they are valid on a busy machine, too. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "matfile.h"
#include "store.h"

enum { SLOT_BYTES = 16 << 20, REPEAT = 7 };

struct layout {
    const char *name;
    struct format_layout how;
};

static const struct layout layouts[] = {
    {"contiguous", {0}},
    {"chunked 64x64", {64, 64, 0, false}},
    {"chunked 256x256", {256, 256, 0, false}},
    {"chunked 1024x1024", {1024, 1024, 0, false}},
    {"chunked 1xN", {1, 1 << 30, 0, false}},
    {"gzip 4, 256x256", {256, 256, 4, false}},
    {"gzip 4, 1024x1024", {1024, 1024, 4, false}},
    {"gzip 4, shuffled, 256x256", {256, 256, 4, true}},
    {"gzip 4, shuffled, 1024x1024", {1024, 1024, 4, true}},
};

static void stop(const struct error *err)
{
    fprintf(stderr, "bench_chunks: %s\n", err->text);
    exit(err->code);
}

/* Create a matrix of values with 20 random bits, which compress to about a third. */
static struct source make(const char *file, int64_t size, const struct format_layout *how)
{
    struct error err = {0};
    struct store *store;
    void *out;
    struct source source = {.matrix = {.rows = size, .cols = size, .elements = SCALAR_DOUBLE}};
    struct block whole = {0, 0, size, size};
    double *data = malloc((size_t)(size * size) * sizeof *data);
    uint64_t state = 1;
    for (int64_t i = 0; i < size * size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (double)(int64_t)(state >> 44) / (1 << 20);
    }
    snprintf(source.file, sizeof source.file, "%s", file);
    snprintf(source.dataset, sizeof source.dataset, "/A");
    if (matfile_create(&source, true, how, NULL, &err))
        stop(&err);
    if (source.matrix.by_offset) {
        if (store_open(&source, SCALAR_DOUBLE, STORE_WRITE, STORE_AUTO, &store, &err) ||
            store_write(store, &whole, data, &err))
            stop(&err);
        store_close(store);
    } else {
        if (matfile_open(&source, true, &out, &err) ||
            matfile_write(out, SCALAR_DOUBLE, &whole, data, &err) || matfile_sync(out, &err))
            stop(&err);
        matfile_close(out);
    }
    free(data);
    if (format_describe(file, "/A", &source, &err))
        stop(&err);
    return source;
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds to read the whole matrix. */
static double read_all(struct store *store, const struct source *source, int threads,
                       char *const slots[])
{
    struct block whole = {0, 0, source->matrix.rows, source->matrix.cols};
    struct block_cut cut = {SLOT_BYTES / sizeof(double), source->matrix.chunk_rows,
                            source->matrix.chunk_cols};
    int64_t parts = block_cut_parts(&whole, &cut);
    clockid_t clock = threads > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    double start = seconds(clock);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < parts; i++) {
        struct error err = {0};
        struct block part = block_cut_part(&whole, &cut, i);
        if (store_read(store, &part, slots[omp_get_thread_num()], &err))
            stop(&err);
    }
    return seconds(clock) - start;
}

/* The best rate in GB/s; *open_s is the time to open the store. */
static double rate(const struct source *source, enum store_way way, int threads, double *open_s)
{
    struct error err = {0};
    struct store *store;
    char **slots = malloc((size_t)threads * sizeof *slots);
    for (int i = 0; i < threads; i++)
        slots[i] = calloc(1, SLOT_BYTES);
    *open_s = seconds(CLOCK_MONOTONIC);
    if (store_open(source, SCALAR_DOUBLE, STORE_READ, way, &store, &err))
        stop(&err);
    *open_s = seconds(CLOCK_MONOTONIC) - *open_s;
    double best = 1e30;
    for (int i = 0; i < REPEAT; i++) {
        double taken = read_all(store, source, threads, slots);
        best = taken < best ? taken : best;
    }
    store_close(store);
    for (int i = 0; i < threads; i++)
        free(slots[i]);
    free(slots);
    return (double)(source->matrix.rows * source->matrix.cols) * sizeof(double) / best * 1e-9;
}

int main(int argc, char **argv)
{
    int64_t size = argc > 1 ? atol(argv[1]) : 4096;
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    char file[PATH_MAX];
    if (threads == 0)
        threads = omp_get_num_procs();
    snprintf(file, sizeof file, "%s/bench_chunks.%d.h5", argc > 3 ? argv[3] : "/dev/shm", getpid());
    printf("%ld x %ld doubles, GB/s of them; %s\n", (long)size, (long)size, format_versions());
    printf("%-28s %9s %9s %9s %9s %9s\n", "", "stored", "H5Dread", "1 thread", "threads",
           "opening");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct source source = make(file, size, &layouts[i].how);
        double ignored, open_s;
        double hdf5 = rate(&source, STORE_LIBRARY, 1, &ignored),
               one = rate(&source, STORE_AUTO, 1, &ignored);
        double all = rate(&source, STORE_AUTO, threads, &open_s);
        printf("%-28s %6.0f MB %9.2f %9.2f %6.2f x%d %6.1f ms\n", layouts[i].name,
               (double)source.file_bytes * 1e-6, hdf5, one, all, threads, open_s * 1e3);
        fflush(stdout);
        unlink(file);
    }
    return 0;
}
