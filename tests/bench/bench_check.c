/* Times of the product check's operations on GPU 0, and the rates at which they read their matrix:
 *
 *     bench_check [ROWS COLS [CLASSES]]      default: strips of a tile, and panels */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "error.h"

enum { REPEAT = 20 };

static struct device *device;
static struct event *start, *stop;
static struct error err;

static void ok(int code)
{
    if (code != 0) {
        fprintf(stderr, "bench_check: %s\n", err.text);
        exit(code);
    }
}

/* Device memory filled with small numbers. */
static void *memory_of(size_t bytes)
{
    void *memory, *host = malloc(bytes);
    ok(device->alloc(device, bytes, &memory, &err));
    memset(host, 0x33, bytes);
    struct copy copy = {memory, host, bytes, bytes, bytes, 1};
    ok(device->copy(device, STREAM_IN, &copy, &err));
    ok(device->record(device, stop, STREAM_IN, &err));
    ok(device->sync(device, stop, &err));
    free(host);
    return memory;
}

/* The arguments of each operation. */
struct bench {
    struct sketch sketch;
    struct project project;
    struct judge judge;
    struct norms norms;
};

static int run_sketch(struct bench *b)
{
    return device->sketch(device, &b->sketch, &err);
}

static int run_project(struct bench *b)
{
    return device->project(device, &b->project, &err);
}

static int run_judge(struct bench *b)
{
    return device->judge(device, &b->judge, &err);
}

static int run_norms(struct bench *b)
{
    return device->norms(device, &b->norms, &err);
}

static void measure(const char *name, int (*run)(struct bench *), struct bench *b, double bytes)
{
    for (int i = 0; i <= REPEAT; i++) {
        if (i == 1)
            ok(device->record(device, start, STREAM_COMPUTE, &err));
        ok(run(b));
    }
    ok(device->record(device, stop, STREAM_COMPUTE, &err));
    ok(device->sync(device, stop, &err));
    double seconds = device->elapsed(device, start, stop) / REPEAT;
    printf("  %-16s %9.1f us %9.1f GB/s\n", name, seconds * 1e6, bytes / seconds * 1e-9);
}

static struct bench prepare(enum scalar type, int64_t rows, int64_t cols, int classes)
{
    int64_t longest = rows > cols ? rows : cols;
    int deal = type == SCALAR_FLOAT ? PEAK_ROWS : 1;
    size_t sums = (size_t)(longest * classes) * sizeof(double);
    void *matrix = memory_of((size_t)(rows * cols) * scalar_size(type));
    void *weights = memory_of((size_t)longest * 8), *left_out = memory_of((size_t)longest * 4 + 4);
    double *squares = memory_of(sums), *odd = memory_of(sums);
    double *roots = memory_of(sums), *line = memory_of((size_t)longest * 8);
    double *norm = memory_of((size_t)classes * 8);
    double *verdicts = memory_of(((size_t)longest * VERDICTS + 2) * 8);
    struct bench b = {
        .sketch = {.type = type,
                   .rows = rows,
                   .cols = cols,
                   .matrix = matrix,
                   .ld = cols,
                   .classes = classes,
                   .deal = deal,
                   .weights = weights,
                   .left_out = left_out,
                   .sums = memory_of(sums),
                   .squares = squares,
                   .odd = odd,
                   .found = memory_of(4)},
        .project = {.type = type,
                    .rows = rows,
                    .cols = cols,
                    .matrix = matrix,
                    .ld = cols,
                    .classes = classes,
                    .x = memory_of(sums),
                    .y = memory_of(sums),
                    .squares = line,
                    .partial = memory_of(project_partials(longest, longest, classes) * 8)},
        .norms = {
            .steps = cols, .classes = classes, .squares = squares, .norms = norm, .roots = roots}};
    b.judge = (struct judge){.type = type,
                             .rows = rows,
                             .cols = cols,
                             .classes = classes,
                             .deal = deal,
                             .y = b.project.y,
                             .z = b.sketch.sums,
                             .before = memory_of(sums),
                             .squares = squares,
                             .odd = odd,
                             .weights = weights,
                             .left_out = left_out,
                             .found = b.sketch.found,
                             .tag = 1 << 30,
                             .row_squares = line,
                             .reach = b.project.y,
                             .norms = norm,
                             .verdicts = verdicts,
                             .counts = verdicts + VERDICTS * rows,
                             .stride = rows,
                             .scale = 1,
                             .steps = 2048,
                             .rounded = 2048,
                             .roundings = 200,
                             .running = true};
    return b;
}

static void release(const struct bench *b)
{
    void *const all[] = {
        (void *)b->sketch.matrix, (void *)b->sketch.weights, (void *)b->sketch.left_out,
        b->sketch.sums,           b->sketch.squares,         b->sketch.odd,
        b->sketch.found,          (void *)b->project.x,      b->project.y,
        b->project.squares,       b->project.partial,        b->norms.norms,
        b->norms.roots,           b->judge.before,           b->judge.verdicts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device->release(device, all[i]);
}

static void bench(enum scalar type, int64_t rows, int64_t cols, int classes)
{
    double bytes = (double)(rows * cols) * (double)scalar_size(type);
    struct bench b = prepare(type, rows, cols, classes), of_b = b;
    of_b.sketch.odd = NULL;
    printf("%s, %lld x %lld, %d classes\n", scalar_name(type), (long long)rows, (long long)cols,
           classes);
    measure("sketch of C", run_sketch, &b, bytes);
    measure("sketch of B", run_sketch, &of_b, bytes);
    of_b.sketch.trans = of_b.project.trans = true;
    measure("sketch of B^T", run_sketch, &of_b, bytes);
    measure("project A", run_project, &b, bytes);
    measure("project A^T", run_project, &of_b, bytes);
    measure("judge", run_judge, &b, (double)(rows * classes) * 56);
    measure("norms", run_norms, &b, (double)(cols * classes) * 8);
    release(&b);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][2] = {{640, 10240}, {10240, 10240}, {1024, 12288}, {16384, 2048}};
    ok(device_gpu_open(0, ALGORITHM_REGISTER, &device, &err));
    ok(device->event_create(device, &start, &err));
    ok(device->event_create(device, &stop, &err));
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        if (argc > 2)
            bench((enum scalar)type, atoll(argv[1]), atoll(argv[2]), argc > 3 ? atoi(argv[3]) : 32);
        else
            for (int i = 0; i < 4; i++)
                bench((enum scalar)type, shapes[i][0], shapes[i][1], 32);
    return 0;
}
