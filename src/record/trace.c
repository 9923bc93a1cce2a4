#include "trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "atomic_file.h"
#include "comm.h"
#include "device.h"
#include "error.h"
#include "meter.h"
#include "notice.h"
#include "quantity.h"

enum {
    LANES = 1000, /* thread numbers for each kind of thread */
    KINDS = 6,
    ANCHOR_TRIES = 20,
};
static const double anchor_seconds = 1e-4, /* by which the host may be late to see an event */
    anchor_lasts_s = 60; /* up to which floats of milliseconds are at most 4 us apart */

static const struct {
    const char *action, *lane;
    int order; /* the lanes from top to bottom; some stages share one */
} stages[STAGE_COUNT] = {
    [STAGE_READ] = {"read", "reader", 0},        [STAGE_CACHE] = {"cache", "reader", 0},
    [STAGE_NETWORK] = {"receive", "network", 1}, [STAGE_IN] = {"copy in", "copy in", 2},
    [STAGE_GEMM] = {"multiply", "compute", 3},   [STAGE_CHECK] = {"check", "compute", 3},
    [STAGE_OUT] = {"copy out", "copy out", 4},   [STAGE_WRITE] = {"write", "writer", 5},
};

/* Record an anchor now.  Its time on the host's clock lies between two readings of that clock,
 * which are repeated where they are far apart.  Between them the anchor before decides, by the
 * device's clock; without one it is the first reading, so that no work seems to end late. */
static void set_anchor(struct device *dev, const struct anchor *before, struct anchor *now,
                       struct error *err)
{
    for (int i = 0; i < ANCHOR_TRIES && !err->code; i++) {
        double begin = clock_now(), time = begin;
        if (dev->record(dev, now->event, STREAM_CLOCK, err) || dev->sync(dev, now->event, err))
            return;
        double end = clock_now();
        if (before)
            time = before->time + dev->elapsed(dev, before->event, now->event);
        now->time = fmin(fmax(begin, time), end);
        if (end - begin < anchor_seconds)
            return;
    }
}

/* The anchor for events that have just happened; the caller holds the lock.  A device that fails
 * keeps its last anchor: its error is reported elsewhere. */
static const struct anchor *anchor_now(struct trace *t)
{
    struct error ignored = {0};
    const struct anchor *newest = &t->anchors[t->newest];
    if (clock_now() - newest->time > anchor_lasts_s) {
        set_anchor(t->device, newest, &t->anchors[1 - t->newest], &ignored);
        t->newest = ignored.code ? t->newest : 1 - t->newest;
    }
    return &t->anchors[t->newest];
}

int trace_open(struct trace *t, struct device *device, bool spans, struct timeline *timeline,
               struct error *err)
{
    *t = (struct trace){.device = device, .timeline = timeline};
    pthread_mutex_init(&t->lock, NULL);
    t->spans = spans ? malloc(TRACE_BYTES) : NULL;
    if (spans && !t->spans)
        error_no_memory(err, "the trace");
    for (int i = 0; i < 2 && !err->code; i++)
        device->event_create(device, &t->anchors[i].event, err);
    set_anchor(device, NULL, &t->anchors[0], err);
    t->start = t->anchors[0].time;
    if (timeline)
        timeline_begin(timeline, t->start);
    return err->code;
}

void trace_close(struct trace *t)
{
    for (int i = 0; i < 2; i++)
        if (t->anchors[i].event)
            t->device->event_destroy(t->device, t->anchors[i].event);
    if (t->device)
        pthread_mutex_destroy(&t->lock);
    free(t->spans);
    *t = (struct trace){0};
}

void trace_host(struct trace *t, struct span span, double begin, double end, double since)
{
    if (!t->spans && !t->timeline)
        return;
    span.begin = begin - t->start;
    span.end = end - t->start;
    pthread_mutex_lock(&t->lock);
    if (t->spans && t->count++ < TRACE_SPANS)
        t->spans[t->count - 1] = span;
    if (t->timeline)
        timeline_add(t->timeline, (enum stage)span.stage, since, end, span.amount);
    pthread_mutex_unlock(&t->lock);
}

void trace_device(struct trace *t, struct span span, struct event *begin, struct event *end)
{
    struct device *dev = t->device;
    if (!t->spans && !t->timeline)
        return;
    pthread_mutex_lock(&t->lock);
    const struct anchor *anchor = anchor_now(t);
    double from = anchor->time + dev->elapsed(dev, anchor->event, begin);
    pthread_mutex_unlock(&t->lock);
    trace_host(t, span, from, from + dev->elapsed(dev, begin, end), from);
}

/* One event of the format; times in microseconds. */
static void print_span(FILE *file, int rank, const struct span *s)
{
    bool computes = s->stage == STAGE_GEMM || s->stage == STAGE_CHECK;
    char name[32];
    snprintf(name, sizeof name, computes ? "%s" : "%s %c", stages[s->stage].action,
             "ABC"[s->operand]);
    fprintf(file,
            ",\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, "
            "\"dur\": %.3f, \"args\": {\"%s\": %.0f}}",
            name, rank, stages[s->stage].order * LANES + s->thread, 1e6 * s->begin,
            1e6 * (s->end - s->begin), computes ? "flops" : "bytes", s->amount);
}

/* Name the lanes that the spans of a rank lie on; Perfetto shows them in this order. */
static void print_lanes(FILE *file, int rank, const struct span *spans, int64_t count)
{
    const char *lanes[KINDS * LANES] = {0};
    for (int64_t i = 0; i < count; i++)
        lanes[stages[spans[i].stage].order * LANES + spans[i].thread] = stages[spans[i].stage].lane;
    fprintf(file,
            "%s{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, "
            "\"args\": {\"name\": \"rank %d\"}}",
            rank ? ",\n" : "", rank, rank);
    for (int lane = 0; lane < KINDS * LANES; lane++)
        if (lanes[lane])
            fprintf(file,
                    ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, "
                    "\"args\": {\"name\": \"%s %d\"}},\n{\"name\": \"thread_sort_index\", "
                    "\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"sort_index\": %d}}",
                    rank, lane, lanes[lane], lane % LANES, rank, lane, lane);
}

static void print_rank(FILE *file, int rank, const struct span *spans, int64_t count)
{
    int64_t kept = min_i64(count, TRACE_SPANS);
    print_lanes(file, rank, spans, kept);
    for (int64_t i = 0; i < kept; i++)
        print_span(file, rank, &spans[i]);
    if (count > kept)
        notice("the trace omits the last %" PRId64 " events of rank %d", count - kept, rank);
}

/* Rank 0 receives the other ranks' spans, one rank after the other, into the memory of its own. */
static void print_ranks(struct trace *t, const struct comm *comm, FILE *file)
{
    fprintf(file, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    print_rank(file, 0, t->spans, t->count);
    for (int rank = 1; rank < comm->size; rank++) {
        int64_t count;
        comm_receive(comm, &count, sizeof count, rank);
        comm_receive(comm, t->spans, (size_t)min_i64(count, TRACE_SPANS) * sizeof *t->spans, rank);
        print_rank(file, rank, t->spans, count);
    }
    fprintf(file, "\n]}\n");
}

int trace_write(struct trace *t, struct comm *comm, const char *path, struct error *err)
{
    struct atomic_file file;
    if (comm->rank == 0)
        atomic_file_open(&file, path, "trace", err);
    if (comm_agree(comm, err))
        return err->code;
    if (comm->rank > 0) {
        comm_send(comm, &t->count, sizeof t->count, 0);
        comm_send(comm, t->spans, (size_t)min_i64(t->count, TRACE_SPANS) * sizeof *t->spans, 0);
        return 0;
    }
    print_ranks(t, comm, file.to);
    return atomic_file_close(&file, err);
}
