/* The fixture of the tests of GPU kernels: devices, matrices with guarded gaps, host arithmetic.
 *
 * Matrices are misaligned, or aligned if a test requests it, with gaps between columns: reads of a
 * gap in an input get NaN, and writes to a gap in an output are detected.
 *
 * The same tests run on a GPU and in the emulation, which runs the small ones and a sample of the
 * rest. */
#pragma once

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device.h"
#include "error.h"

enum {
    GPU = 0,
    ALGORITHMS_MAX = 16,
    EMULATED_WORK = 300000,
    EMULATED_SHARE = 8,
    EXIT_SKIPPED = 77
};
static const double guard = -12345;

static struct error err;
static struct device *devices[ALGORITHMS_MAX]; /* null: not supported on this machine */
static enum algorithm ids[ALGORITHMS_MAX];
static int algorithms;
static struct event *reached;
static bool emulated;
static bool aligned; /* of matrices that are made from now on */

static inline const struct kernel *kernel_at(int number)
{
    return kernels[ids[number]];
}

/* Whether it multiplies planes of bytes, in this build. */
static inline bool is_of_bytes(const struct kernel *kernel)
{
    return kernel->code && kernel->rates[SCALAR_INT8][0].per_clock > 0;
}

static inline void ok(int rc)
{
    if (rc != 0)
        fail_msg("%s", err.text);
}

/* Whether a test with that many multiply-adds is small enough for this device. */
static inline bool affordable(int64_t steps)
{
    return !emulated || steps <= EMULATED_WORK;
}

/* Whether to run the next one of many similar tests. */
static inline bool chosen(void)
{
    return !emulated || rand() % EMULATED_SHARE == 0;
}

/* Column-major, rows x cols; row-major matrices are stored as their transposes. */
struct array {
    enum scalar type;
    int64_t rows, cols, ld, margin; /* elements before the first */
    size_t count;
    void *host, *device;
};

static inline double raw_get(const struct array *m, size_t at)
{
    return scalar_get(m->type, m->host, (int64_t)at);
}

static inline void raw_set(struct array *m, size_t at, double value)
{
    scalar_put(m->type, value, m->host, (int64_t)at);
}

static inline size_t index_of(const struct array *m, int64_t i, int64_t j)
{
    return (size_t)(m->margin + i + j * m->ld);
}

static inline void *device_at(const struct array *m, int64_t i, int64_t j)
{
    return (char *)m->device + index_of(m, i, j) * scalar_size(m->type);
}

static inline struct array matrix_make(enum scalar type, int64_t rows, int64_t cols, double gaps)
{
    int64_t ld = aligned ? (rows + 7) / 8 * 8 : rows + 3, margin = aligned ? 32 : 5;
    struct array m = {type, rows, cols, ld, margin, 0, NULL, NULL};
    m.count = index_of(&m, 0, cols) + (size_t)margin;
    m.host = malloc(m.count * scalar_size(type));
    assert_non_null(m.host);
    for (size_t at = 0; at < m.count; at++)
        raw_set(&m, at, gaps);
    ok(devices[0]->alloc(devices[0], m.count * scalar_size(type), &m.device, &err));
    return m;
}

/* C += A B. */
static inline struct gemm gemm_of(const struct array *a, const struct array *b,
                                  const struct array *c, int64_t k)
{
    return (struct gemm){.type = c->type,
                         .m = c->rows,
                         .n = c->cols,
                         .k = k,
                         .alpha = 1,
                         .beta = 1,
                         .a = device_at(a, 0, 0),
                         .b = device_at(b, 0, 0),
                         .c = device_at(c, 0, 0),
                         .lda = a->ld,
                         .ldb = b->ld,
                         .ldc = c->ld};
}

static inline void matrix_free(struct array *m)
{
    free(m->host);
    devices[0]->release(devices[0], m->device);
}

static inline void finish(struct device *dev, enum stream stream)
{
    ok(dev->record(dev, reached, stream, &err));
    ok(dev->sync(dev, reached, &err));
}

static inline void copy_rows(const struct copy *copy, enum stream stream)
{
    ok(devices[0]->copy(devices[0], stream, copy, &err));
    finish(devices[0], stream);
}

static inline void upload(const struct array *m)
{
    size_t bytes = m->count * scalar_size(m->type);
    copy_rows(&(struct copy){m->device, m->host, bytes, bytes, bytes, 1}, STREAM_IN);
}

static inline void download(const struct array *m)
{
    size_t bytes = m->count * scalar_size(m->type);
    copy_rows(&(struct copy){m->host, m->device, bytes, bytes, bytes, 1}, STREAM_OUT);
}

/* Everything except the elements must still be `guard`. */
static inline void check_guards(const struct array *m)
{
    for (size_t at = 0; at < m->count; at++) {
        int64_t beyond = (int64_t)at - m->margin;
        bool element = beyond >= 0 && beyond % m->ld < m->rows && beyond / m->ld < m->cols;
        if (!element && raw_get(m, at) != guard)
            fail_msg("a gap of a %lld x %lld matrix was overwritten", (long long)m->rows,
                     (long long)m->cols);
    }
}

enum data { INTEGER, RANDOM, SPECIAL, DATA_COUNT };

static inline double next_value(enum data data, enum scalar type)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    double value = data == RANDOM ? (double)(state >> 11) * 0x1p-52 - 1 : (double)(state % 17) - 8;
    return type == SCALAR_FLOAT ? (float)value : value;
}

static inline double fused(enum scalar type, double a, double b, double s)
{
    return type == SCALAR_FLOAT ? fmaf((float)a, (float)b, (float)s) : fma(a, b, s);
}

static inline double times(enum scalar type, double a, double b)
{
    return type == SCALAR_FLOAT ? (float)a * (float)b : a * b;
}

static inline bool same_bits(double x, double y)
{
    return (isnan(x) && isnan(y)) || memcmp(&x, &y, sizeof x) == 0;
}

static inline bool close_to(double got, long double exact, long double bound)
{
    if (isnan(exact) || isinf(exact))
        return isnan(exact) ? isnan(got) : got == exact;
    return fabsl(got - exact) <= bound;
}

static inline long double epsilon(enum scalar type)
{
    return type == SCALAR_FLOAT ? FLT_EPSILON : DBL_EPSILON;
}

/* Opens one device for each algorithm.  Returns false if there is no GPU, so nothing can be
 * tested. */
static inline bool fixture_open(void)
{
    if (device_gpu_count() == 0) {
        printf("skipped: no GPU\n");
        return false;
    }
    for (int id = 0; id < ALGORITHM_COUNT; id++) {
        if (!algorithm_is_choice((enum algorithm)id) || kernels[id]->on_cpu)
            continue; /* only those that take struct gemm alone */
        ids[algorithms] = (enum algorithm)id;
        if (device_gpu_open(GPU, ids[algorithms], &devices[algorithms], &err) != 0) {
            printf("%s is not tested: %s\n", kernels[id]->name, err.text);
            err = (struct error){0};
        }
        algorithms++;
    }
    if (!devices[0] || devices[0]->event_create(devices[0], &reached, &err) != 0) {
        fprintf(stderr, "the GPU does not open: %s\n", err.text);
        exit(EXIT_RUNTIME);
    }
    emulated = strcmp(devices[0]->info.name, "emulated") == 0;
    return true;
}

static inline void fixture_close(void)
{
    devices[0]->event_destroy(devices[0], reached);
    for (int i = 0; i < algorithms; i++)
        if (devices[i])
            devices[i]->close(devices[i]);
}
