/* The CPU device with fault injection.  An operation fails before it has any effect, as CUDA's do,
 * or is delayed on its stream, which exposes missing synchronization. */
#include <stddef.h>
#include <stdio.h>

#include "device.h"
#include "error.h"
#include "faults.h"

static struct device real;

enum { LATE_BYTES = 8 << 20 }; /* copying them takes a millisecond or more */

static int late(struct device *dev, enum stream stream, struct error *err)
{
    static char from[STREAM_COUNT][LATE_BYTES], to[STREAM_COUNT][LATE_BYTES];
    struct copy copy = {.dst = to[stream], .src = from[stream], .width = LATE_BYTES, .rows = 1};
    return real.copy(dev, stream, &copy, err);
}

static int fail(enum call call, const char *what, struct error *err)
{
    return fault_of(call) ? error_add(err, EXIT_RUNTIME, "the device failed: %s", what) : 0;
}

/* The same for an operation on a stream, which can also be delayed. */
static int fail_on(struct device *dev, enum call call, enum stream stream, const char *what,
                   struct error *err)
{
    int fault = fault_of(call);
    if (fault == FAULT_DELAY)
        return late(dev, stream, err);
    return fault ? error_add(err, EXIT_RUNTIME, "the device failed: %s", what) : 0;
}

static int faulty_alloc(struct device *dev, size_t bytes, void **memory, struct error *err)
{
    if (fault_of(CALL_ALLOC))
        return error_add(err, EXIT_RESOURCES, "the device has no %zu bytes", bytes);
    return real.alloc(dev, bytes, memory, err);
}

static int faulty_pin(struct device *dev, void *host, size_t bytes, struct error *err)
{
    return fail(CALL_PIN, "pin", err) ? err->code : real.pin(dev, host, bytes, err);
}

static int faulty_event(struct device *dev, struct event **event, struct error *err)
{
    return fail(CALL_EVENT, "event", err) ? err->code : real.event_create(dev, event, err);
}

static int faulty_record(struct device *dev, struct event *event, enum stream stream,
                         struct error *err)
{
    return fail(CALL_RECORD, "record", err) ? err->code : real.record(dev, event, stream, err);
}

static int faulty_wait(struct device *dev, enum stream stream, struct event *event,
                       struct error *err)
{
    return fail(CALL_WAIT, "wait", err) ? err->code : real.wait(dev, stream, event, err);
}

static int faulty_sync(struct device *dev, struct event *event, struct error *err)
{
    return fail(CALL_SYNC, "sync", err) ? err->code : real.sync(dev, event, err);
}

static int faulty_copy(struct device *dev, enum stream stream, const struct copy *copy,
                       struct error *err)
{
    return fail_on(dev, CALL_COPY, stream, "copy", err) ? err->code
                                                        : real.copy(dev, stream, copy, err);
}

/* Flip one bit of one element of C after the product is complete. */
static int flip_bit(struct device *dev, const struct gemm *gemm, struct error *err)
{
    static struct event *done;
    char line[128];
    size_t size = scalar_size(gemm->type);
    int64_t row = (int64_t)(fault_chance(CALL_GEMM, 0) % (uint64_t)gemm->m),
            col = (int64_t)(fault_chance(CALL_GEMM, 1) % (uint64_t)gemm->n);
    unsigned bit = (unsigned)(fault_chance(CALL_GEMM, 2) % (8 * size));
    if ((!done && real.event_create(dev, &done, err)) ||
        real.record(dev, done, STREAM_COMPUTE, err) || real.sync(dev, done, err))
        return err->code;
    unsigned char *element = (unsigned char *)gemm->c + (size_t)(col * gemm->ldc + row) * size;
    element[bit / 8] ^= (unsigned char)(1 << bit % 8);
    snprintf(line, sizeof line, "bit %u of element (%lld, %lld) of %lld x %lld", bit,
             (long long)row, (long long)col, (long long)gemm->m, (long long)gemm->n);
    fault_log(line);
    return 0;
}

/* Set the counter of wrong residues to one. */
static int count_residue(struct device *dev, const struct ozaki *ozaki, struct error *err)
{
    static const unsigned long long one = 1;
    struct copy copy = {.dst = ozaki->wrong, .src = &one, .width = sizeof one, .rows = 1};
    return ozaki->wrong ? real.copy(dev, STREAM_COMPUTE, &copy, err) : 0;
}

/* Fail, delay the product, or falsify an element, which the check of the product must find.
 * `ozaki` is null unless the product is computed in residues, `integers` unless it is one of
 * integers. */
static int faulty_product(struct device *dev, const struct gemm *gemm, const struct ozaki *ozaki,
                          const struct integers *integers, struct error *err)
{
    static const double wrong = 1e6;
    static const float wrong_float = 1e6F;
    bool is_double = gemm->type == SCALAR_DOUBLE;
    int fault = fault_of(CALL_GEMM);
    if (fault == FAULT_DELAY && late(dev, STREAM_COMPUTE, err))
        return err->code;
    if (fault == FAULT_FAIL || fault > 0)
        return error_add(err, EXIT_RUNTIME, "the device failed: gemm");
    struct copy flip = {.dst = gemm->c,
                        .src = is_double ? (const void *)&wrong : &wrong_float,
                        .width = scalar_size(gemm->type),
                        .rows = 1};
    if (integers ? real.integers(dev, gemm, integers, err)
        : ozaki  ? real.ozaki(dev, gemm, ozaki, err)
                 : real.gemm(dev, gemm, err))
        return err->code;
    switch (fault) {
    case FAULT_BIT: return flip_bit(dev, gemm, err);
    case FAULT_FLIP: return real.copy(dev, STREAM_COMPUTE, &flip, err);
    case FAULT_RESIDUE: return ozaki ? count_residue(dev, ozaki, err) : 0;
    default: return 0;
    }
}

static int faulty_gemm(struct device *dev, const struct gemm *gemm, struct error *err)
{
    return faulty_product(dev, gemm, NULL, NULL, err);
}

static int faulty_ozaki(struct device *dev, const struct gemm *gemm, const struct ozaki *ozaki,
                        struct error *err)
{
    return faulty_product(dev, gemm, ozaki, NULL, err);
}

static int faulty_integers(struct device *dev, const struct gemm *gemm,
                           const struct integers *integers, struct error *err)
{
    return faulty_product(dev, gemm, NULL, integers, err);
}

static int faulty_combine(struct device *dev, const struct combine *combine, struct error *err)
{
    return fail_on(dev, CALL_COMBINE, STREAM_OUT, "combine", err) ? err->code
                                                                  : real.combine(dev, combine, err);
}

static int faulty_mirror(struct device *dev, const struct mirror *mirror, struct error *err)
{
    return fail_on(dev, CALL_MIRROR, STREAM_OUT, "mirror", err) ? err->code
                                                                : real.mirror(dev, mirror, err);
}

static int faulty_standardize(struct device *dev, const struct standardize *standardize,
                              struct error *err)
{
    return fail_on(dev, CALL_STANDARDIZE, STREAM_COMPUTE, "standardize", err)
               ? err->code
               : real.standardize(dev, standardize, err);
}

static int faulty_recentre(struct device *dev, const struct recentre *recentre, struct error *err)
{
    return fail_on(dev, CALL_RECENTRE, STREAM_OUT, "recentre", err)
               ? err->code
               : real.recentre(dev, recentre, err);
}

static int faulty_embed(struct device *dev, const struct embed *embed, struct error *err)
{
    return fail_on(dev, CALL_EMBED, STREAM_COMPUTE, "embed", err) ? err->code
                                                                  : real.embed(dev, embed, err);
}

/* Fail, delay, or falsify the first sum. */
static int faulty_fold(struct device *dev, const struct fold *fold, struct error *err)
{
    static const double wrong = 1e6;
    const struct copy flip = {
        .dst = fold->to, .src = &wrong, .width = scalar_size(fold->type), .rows = 1};
    const int fault = fault_of(CALL_FOLD);
    if (fault == FAULT_DELAY && late(dev, STREAM_COMPUTE, err))
        return err->code;
    if (fault == FAULT_FAIL || fault > 0)
        return error_add(err, EXIT_RUNTIME, "the device failed: fold");
    if (real.fold(dev, fold, err))
        return err->code;
    return fault == FAULT_FLIP ? real.copy(dev, STREAM_COMPUTE, &flip, err) : 0;
}

static int faulty_sketch(struct device *dev, const struct sketch *sketch, struct error *err)
{
    return fail_on(dev, CALL_SKETCH, STREAM_COMPUTE, "sketch", err) ? err->code
                                                                    : real.sketch(dev, sketch, err);
}

static int faulty_retire(struct device *dev, const struct retire *retire, struct error *err)
{
    return fail_on(dev, CALL_RETIRE, STREAM_COMPUTE, "retire", err) ? err->code
                                                                    : real.retire(dev, retire, err);
}

static int faulty_project(struct device *dev, const struct project *project, struct error *err)
{
    return fail_on(dev, CALL_PROJECT, STREAM_COMPUTE, "project", err)
               ? err->code
               : real.project(dev, project, err);
}

static int faulty_norms(struct device *dev, const struct norms *norms, struct error *err)
{
    return fail_on(dev, CALL_NORMS, STREAM_COMPUTE, "norms", err) ? err->code
                                                                  : real.norms(dev, norms, err);
}

static int faulty_judge(struct device *dev, const struct judge *judge, struct error *err)
{
    return fail_on(dev, CALL_JUDGE, STREAM_COMPUTE, "judge", err) ? err->code
                                                                  : real.judge(dev, judge, err);
}

int __real_device_cpu_open(int threads, struct device **dev, struct error *err);
int __wrap_device_cpu_open(int threads, struct device **dev, struct error *err);
int __wrap_device_cpu_open(int threads, struct device **dev, struct error *err)
{
    if (__real_device_cpu_open(threads, dev, err))
        return err->code;
    struct device *d = *dev;
    real = *d;
    d->alloc = faulty_alloc;
    d->pin = faulty_pin;
    d->event_create = faulty_event;
    d->record = faulty_record;
    d->wait = faulty_wait;
    d->sync = faulty_sync;
    d->copy = faulty_copy;
    d->gemm = faulty_gemm;
    d->ozaki = faulty_ozaki;
    d->integers = faulty_integers;
    d->combine = faulty_combine;
    d->mirror = faulty_mirror;
    d->standardize = faulty_standardize;
    d->recentre = faulty_recentre;
    d->embed = faulty_embed;
    d->fold = faulty_fold;
    d->sketch = faulty_sketch;
    d->retire = faulty_retire;
    d->project = faulty_project;
    d->norms = faulty_norms;
    d->judge = faulty_judge;
    return 0;
}
