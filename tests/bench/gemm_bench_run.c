/* The measurements of gemm_bench: for each type, size and transposition the operands are made once,
 * and all algorithms of the device work on them in turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gemm_bench.h"
#include "machine.h"
#include "mix.h"
#include "quantity.h"

enum { CALLS_MAX = 1000, PAGE_BYTES = 4096 };

static const double measure_s = 2e-3; /* calls are repeated within a measurement up to this time */
static const double long_s = 0.1;

struct bench {
    const struct bench_options *options;
    const struct ladder *ladder;
    struct device *owner;     /* of the memory and events */
    struct device *reference; /* null: none */
    struct event *start, *middle, *stop;
    struct bench_operands operands;
    struct device *in_residues; /* whose products these are; null: nobody's */
    struct residues residues;
    struct ozaki ozaki;
    struct bench_sink *sink;
    struct error *err;
};

/* Operands */

/* Uniform in (0, 1). */
static double uniform(uint64_t seed, uint64_t index)
{
    return ((double)(mix_number(seed, index) >> 12) + 0.5) * 0x1p-52;
}

/* Uniform in (-1, 1), times e to the power of what is normal with the standard deviation phi:
 * by Box and Muller. */
static double number_at(uint64_t seed, uint64_t index, double phi)
{
    const uint64_t at = 3 * index;
    const double x = 2 * uniform(seed, at) - 1;
    if (phi == 0)
        return x;
    return x *
           exp(phi * sqrt(-2 * log(uniform(seed, at + 1))) * cos(2 * M_PI * uniform(seed, at + 2)));
}

static void fill_random(enum scalar type, void *memory, size_t bytes, uint64_t seed, double phi)
{
    seed = mix_bits(seed);
    const int64_t count = (int64_t)(bytes / scalar_size(type));
#pragma omp parallel for
    for (int64_t at = 0; at < count; at++) {
        const double x = number_at(seed, (uint64_t)at, phi);
        scalar_put(type, x, memory, at);
    }
}

/* Bytes of a matrix in either orientation. */
static size_t matrix_bytes(enum scalar type, int64_t rows, int64_t cols, int64_t pad)
{
    return (size_t)(rows * cols + pad * max_i64(rows, cols)) * scalar_size(type);
}

static int copy_bytes(struct bench *b, enum stream stream, void *to, const void *from, size_t bytes)
{
    struct copy copy = {to, from, bytes, bytes, bytes, 1};
    return b->owner->copy(b->owner, stream, &copy, b->err);
}

static int finish(struct bench *b, enum stream stream)
{
    if (b->owner->record(b->owner, b->stop, stream, b->err))
        return b->err->code;
    return b->owner->sync(b->owner, b->stop, b->err);
}

static int upload(struct bench *b, void *to, const void *from, size_t bytes)
{
    if (copy_bytes(b, STREAM_IN, to, from, bytes))
        return b->err->code;
    return finish(b, STREAM_IN);
}

static int host_alloc(struct bench *b, void **memory, size_t bytes)
{
    if (posix_memalign(memory, PAGE_BYTES, bytes) != 0) {
        *memory = NULL;
        return error_add(b->err, EXIT_RESOURCES, "cannot allocate %s of host memory",
                         quantity_bytes((double)bytes));
    }
    return b->options->transfers ? b->owner->pin(b->owner, *memory, bytes, b->err) : 0;
}

/* Make op(A), transposed or not, have each complex number twice (ozaki.h). */
static int expand_a(struct bench *b)
{
    const struct bench_operands *o = &b->operands;
    const struct gemm *g = &o->gemm;
    const size_t element = scalar_size(g->type);
    const int64_t across = g->trans_a ? g->lda : 1, along = g->trans_a ? 1 : g->lda;
#pragma omp parallel for
    for (int64_t h = 0; h < g->k; h += 2)
        for (int64_t i = 0; i < g->m; i += 2) {
            char *re = (char *)o->a + (size_t)(i * across + h * along) * element;
            char *im = re + (size_t)across * element, *minus_im = re + (size_t)along * element;
            memcpy(minus_im + (size_t)across * element, re, element);
            scalar_put(g->type, -scalar_get(g->type, im, 0), minus_im, 0);
        }
    return upload(b, (void *)g->a, o->a, o->bytes[0]);
}

/* Complex matrices are of twice as many rows and steps. */
static int operands_make(struct bench *b, enum scalar type, bool complex, struct bench_size size)
{
    struct bench_operands *o = &b->operands;
    const int64_t width = complex ? 2 : 1, pad = width * b->options->ld_pad;
    struct device *dev = b->owner;
    void *device[3] = {0}, **const host[] = {&o->a, &o->b, &o->c0, &o->c};
    size.m *= width;
    size.k *= width;
    *o = (struct bench_operands){.bytes = {matrix_bytes(type, size.m, size.k, pad),
                                           matrix_bytes(type, size.k, size.n, pad),
                                           matrix_bytes(type, size.m, size.n, pad)}};
    for (int i = 0; i < 3 && !b->err->code; i++)
        dev->alloc(dev, o->bytes[i], &device[i], b->err);
    o->gemm = (struct gemm){.type = type,
                            .complex = complex,
                            .m = size.m,
                            .n = size.n,
                            .k = size.k,
                            .alpha = 1,
                            .beta = 1,
                            .a = device[0],
                            .b = device[1],
                            .c = device[2],
                            .ldc = size.m + pad};
    for (int i = 0; i < 4 && !b->err->code; i++)
        host_alloc(b, host[i], o->bytes[min_i64(i, 2)]);
    for (int i = 0; i < 3 && !b->err->code; i++) {
        fill_random(type, *host[i], o->bytes[i], (uint64_t)i + 1, b->options->phi);
        upload(b, device[i], *host[i], o->bytes[i]);
    }
    return b->err->code;
}

static void operands_free(struct bench *b)
{
    struct bench_operands *o = &b->operands;
    void *device[] = {(void *)o->gemm.a, (void *)o->gemm.b, o->gemm.c};
    void *host[] = {o->a, o->b, o->c0, o->c};
    for (int i = 0; i < 3; i++)
        if (device[i])
            b->owner->release(b->owner, device[i]);
    for (int i = 0; i < 4; i++) {
        if (host[i] && b->options->transfers)
            b->owner->unpin(b->owner, host[i]);
        free(host[i]);
    }
}

/* The products of this device are in residues from now on. */
static int residues_open(struct bench *b, struct device *dev, int moduli)
{
    const struct gemm *g = &b->operands.gemm;
    struct ozaki_part part = ozaki_part(moduli, g->complex, SIZE_MAX, g->m, g->n, g->k);
    residues_make(moduli, g->complex, &b->residues);
    b->ozaki =
        (struct ozaki){.residues = &b->residues, .bytes = ozaki_cpu_workspace(), .cols = g->n};
    if (dev->info.kind == DEVICE_GPU)
        b->ozaki.bytes =
            ozaki_workspace(moduli, g->complex, part.rows, part.cols, min_i64(g->k, OZAKI_BLOCK));
    if (dev->alloc(dev, b->ozaki.bytes, &b->ozaki.workspace, b->err))
        return b->err->code;
    b->in_residues = dev;
    return 0;
}

static void residues_close(struct bench *b)
{
    if (b->in_residues)
        b->in_residues->release(b->in_residues, b->ozaki.workspace);
    b->in_residues = NULL;
}

static int multiply(struct bench *b, struct device *dev)
{
    const struct gemm *g = &b->operands.gemm;
    return dev == b->in_residues ? dev->ozaki(dev, g, &b->ozaki, b->err)
                                 : dev->gemm(dev, g, b->err);
}

/* Time */

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Sorts. */
static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return (values[count / 2] + values[(count - 1) / 2]) / 2;
}

/* Seconds of a call, of `calls` in a row.  Clock and power are read while they run. */
static int time_calls(struct bench *b, struct device *dev, int calls, double *seconds,
                      struct bench_row *row)
{
    *seconds = 0;
    if (dev->record(dev, b->start, STREAM_COMPUTE, b->err))
        return b->err->code;
    for (int i = 0; i < calls; i++)
        if (multiply(b, dev))
            return b->err->code;
    if (dev->record(dev, b->stop, STREAM_COMPUTE, b->err))
        return b->err->code;
    if (row)
        bench_power_read(&row->clock_mhz, &row->watts);
    if (dev->sync(dev, b->stop, b->err))
        return b->err->code;
    *seconds = dev->elapsed(dev, b->start, b->stop) / calls;
    return 0;
}

/* Complex numbers of an op(B) that is transposed have their parts in different columns. */
static bool cublas_can(const struct gemm *g)
{
    return !g->complex || !g->trans_b;
}

/* How many calls make a measurement, after two that warm up, or one that takes long. */
static int calls_needed(struct bench *b, struct device *dev, int *calls)
{
    double seconds;
    if (time_calls(b, dev, 1, &seconds, NULL) ||
        (seconds < long_s && time_calls(b, dev, 1, &seconds, NULL)))
        return b->err->code;
    double wanted = seconds > 0 ? measure_s / seconds + 1 : 1;
    *calls = wanted < CALLS_MAX ? (int)wanted : CALLS_MAX;
    return 0;
}

/* In turn with the reference. */
static int measure(struct bench *b, struct device *dev, struct bench_row *row)
{
    double ours[BENCH_REPEAT_MAX], shares[BENCH_REPEAT_MAX], theirs = 0;
    const int repeat = b->options->repeat;
    const bool compares = dev != b->reference && cublas_can(&row->gemm);
    struct device *reference = compares ? b->reference : NULL;
    int calls = 1, reference_calls = 1;
    if ((reference && calls_needed(b, reference, &reference_calls)) || calls_needed(b, dev, &calls))
        return b->err->code;
    for (int i = 0; i < repeat; i++) {
        if (time_calls(b, dev, calls, &ours[i], i == repeat - 1 ? row : NULL) ||
            (reference && time_calls(b, reference, reference_calls, &theirs, NULL)))
            return b->err->code;
        shares[i] = theirs / ours[i];
    }
    row->seconds = median(ours, repeat);
    row->least_s = ours[0];
    row->most_s = ours[repeat - 1];
    row->of_reference = reference ? median(shares, repeat) : dev == b->reference ? 1 : 0;
    return 0;
}

/* A, B and C in, the product, and C out, one after another. */
static int time_transfers(struct bench *b, struct device *dev, double *seconds)
{
    const struct bench_operands *o = &b->operands;
    const struct gemm *g = &o->gemm;
    if (dev->record(dev, b->start, STREAM_IN, b->err) ||
        copy_bytes(b, STREAM_IN, (void *)g->a, o->a, o->bytes[0]) ||
        copy_bytes(b, STREAM_IN, (void *)g->b, o->b, o->bytes[1]) ||
        copy_bytes(b, STREAM_IN, g->c, o->c0, o->bytes[2]) ||
        b->owner->record(b->owner, b->middle, STREAM_IN, b->err) ||
        dev->wait(dev, STREAM_COMPUTE, b->middle, b->err) || multiply(b, dev) ||
        dev->record(dev, b->middle, STREAM_COMPUTE, b->err) ||
        b->owner->wait(b->owner, STREAM_OUT, b->middle, b->err) ||
        copy_bytes(b, STREAM_OUT, o->c, g->c, o->bytes[2]) || finish(b, STREAM_OUT))
        return b->err->code;
    *seconds = dev->elapsed(dev, b->start, b->stop);
    return 0;
}

static int measure_transfers(struct bench *b, struct device *dev, struct bench_row *row)
{
    double seconds[BENCH_REPEAT_MAX];
    for (int i = 0; i < b->options->repeat; i++)
        if (time_transfers(b, dev, &seconds[i]))
            return b->err->code;
    row->transfers_s = median(seconds, b->options->repeat);
    return 0;
}

/* The whole */

static int check(struct bench *b, struct device *dev, const struct bench_oracle *oracle,
                 struct bench_row *row)
{
    struct bench_operands *o = &b->operands;
    double seconds;
    if (upload(b, o->gemm.c, o->c0, o->bytes[2]) || time_calls(b, dev, 1, &seconds, NULL) ||
        copy_bytes(b, STREAM_OUT, o->c, o->gemm.c, o->bytes[2]) || finish(b, STREAM_OUT))
        return b->err->code;
    bench_oracle_compare(oracle, o, row->of.moduli, &row->errors);
    return 0;
}

static int run_algorithm(struct bench *b, int i, const struct bench_oracle *oracle)
{
    const struct device_info *info = &b->owner->info;
    struct device *dev = b->ladder->devices[i];
    struct bench_row row = {.of = b->ladder->choices[i], .gemm = b->operands.gemm};
    if (info->kind == DEVICE_GPU)
        row.peak_flops_per_s = machine_gpu_peak(info, row.gemm.type);
    if (bench_is(&row.of, ALGORITHM_OZAKI) && row.of.moduli == 0)
        row.of.moduli = ozaki_moduli(row.gemm.type, row.gemm.complex);
    if ((row.of.moduli == 0 || residues_open(b, dev, row.of.moduli) == 0) &&
        measure(b, dev, &row) == 0 &&
        (!b->options->transfers || measure_transfers(b, dev, &row) == 0) &&
        check(b, dev, oracle, &row) == 0)
        bench_sink_add(b->sink, &row, b->err);
    residues_close(b);
    return b->err->code;
}

static int run_algorithms(struct bench *b, const struct bench_oracle *oracle)
{
    int *shape = &b->operands.gemm.shape;
    for (int i = 0; i < b->ladder->count; i++) {
        const struct bench_choice *choice = &b->ladder->choices[i];
        if ((bench_is(choice, ALGORITHM_CUBLAS) && !cublas_can(&b->operands.gemm)) ||
            (choice->rival && b->operands.gemm.complex))
            continue;
        const bool sweeps = b->options->sweep && !choice->rival;
        const int shapes = sweeps ? kernels[choice->algorithm]->shapes : 1;
        for (*shape = 0; *shape < shapes; ++*shape)
            if (run_algorithm(b, i, oracle))
                return b->err->code;
    }
    return 0;
}

static int run_size(struct bench *b, enum scalar type, bool complex, struct bench_size size)
{
    const int64_t pad = (complex ? 2 : 1) * b->options->ld_pad;
    operands_make(b, type, complex, size);
    for (int trans = 0; trans < 4 && !b->err->code; trans++) {
        struct gemm *g = &b->operands.gemm;
        struct bench_oracle oracle = {0};
        g->trans_a = trans / 2;
        g->trans_b = trans % 2;
        g->lda = (g->trans_a ? g->k : g->m) + pad;
        g->ldb = (g->trans_b ? g->n : g->k) + pad;
        if (!b->options->trans[g->trans_a][g->trans_b])
            continue;
        if ((!complex || expand_a(b) == 0) &&
            !bench_oracle_make(&b->operands, b->options->check, &oracle, b->err))
            run_algorithms(b, &oracle);
        bench_oracle_free(&oracle);
        if (!b->err->code && b->options->json[0])
            bench_write(b->sink, &b->owner->info, b->err);
    }
    operands_free(b);
    return b->err->code;
}

int bench_run(const struct bench_options *options, const struct ladder *ladder,
              struct bench_sink *sink, struct error *err)
{
    static const struct bench_size gpu_sizes[] = {
        {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192}};
    static const struct bench_size cpu_sizes[] = {{512, 512, 512}, {1024, 1024, 1024}};
    struct device *owner = ladder->devices[0];
    const bool gpu = owner->info.kind == DEVICE_GPU;
    const struct bench_size *sizes = options->size_count ? options->sizes
                                     : gpu               ? gpu_sizes
                                                         : cpu_sizes;
    const int size_count = options->size_count ? options->size_count : gpu ? 4 : 2;
    struct bench b = {options, ladder, owner, .sink = sink, .err = err};

    for (int i = 0; i < ladder->count; i++)
        if (bench_is(&ladder->choices[i], ALGORITHM_CUBLAS))
            b.reference = ladder->devices[i];
    if (!owner->event_create(owner, &b.start, err) && !owner->event_create(owner, &b.middle, err))
        owner->event_create(owner, &b.stop, err);
    for (int kind = 0; kind < 4; kind++) {
        const enum scalar type = kind % 2 ? SCALAR_DOUBLE : SCALAR_FLOAT;
        const bool complex = kind / 2;
        for (int s = 0; s < size_count && options->types[type][complex] && !err->code; s++)
            run_size(&b, type, complex, sizes[s]);
    }
    owner->event_destroy(owner, b.start);
    owner->event_destroy(owner, b.middle);
    owner->event_destroy(owner, b.stop);
    return err->code;
}
