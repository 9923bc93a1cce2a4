/* What every stage did, and when, on every rank: as spans, for Perfetto and other readers of
 * Chrome's trace format, and summed up over time for the page (page.h).  There is one span for each
 * slot that moves and each product; it takes 32 bytes and no system call.  Without a trace it costs
 * a comparison. */
#pragma once

#include <pthread.h>

#include "problem.h"
#include "timeline.h"

struct comm;
struct device;
struct error;
struct event;

/* One thing that a stage did; times are seconds since the trace began. */
struct span {
    double begin, end;
    double amount; /* bytes, or floating-point operations */
    uint8_t stage, operand;
    uint16_t thread; /* of those of its stage */
};

enum {
    TRACE_SPANS = 1 << 18, /* of each rank; spans beyond this are dropped, and counted */
    TRACE_BYTES = TRACE_SPANS * sizeof(struct span) /* that they take on the host */
};

/* A moment on both clocks, from which later ones on the device are measured.  Anchors are renewed
 * all the time, since the device counts in float milliseconds, which are coarse far from one. */
struct anchor {
    struct event *event;
    double time; /* clock_now */
};

struct trace {
    struct timeline *timeline; /* the caller's; null: none */
    struct span *spans;        /* null: none */
    int64_t count;             /* of all spans, also those that were dropped */
    struct device *device;
    double start;             /* on the host's clock */
    struct anchor anchors[2]; /* in turn */
    int newest;               /* of them */
    pthread_mutex_t lock;
};

/* Begin now, on all ranks at the same time, with spans or a timeline or both.  After a failure
 * trace_close is still due. */
int trace_open(struct trace *trace, struct device *device, bool spans, struct timeline *timeline,
               struct error *err);
void trace_close(struct trace *trace);

/* Add a span, from any thread: trace_host between two times of clock_now, trace_device between two
 * events that the device has reached.  Spans of one stage may overlap on the host; the timeline
 * counts the stage as busy from `since` on (meter_end). */
void trace_host(struct trace *trace, struct span span, double begin, double end, double since);
void trace_device(struct trace *trace, struct span span, struct event *begin, struct event *end);

/* Collective, with an error that has no complaint yet on any rank.  Rank 0 writes the spans of all
 * ranks, under a temporary name first. */
int trace_write(struct trace *trace, struct comm *comm, const char *path, struct error *err);
