/* The products that are enqueued on the compute stream, and the time that each of them took: a
 * ring of steps, each of which is three points on that stream. */
#pragma once

#include "meter.h"
#include "plan.h"
#include "trace.h"

struct device;
struct error;
struct event;

enum { STEPS = 2 * STRIPS_MAX + 4 };
enum step_point { STEP_BEGUN, STEP_MULTIPLIED, STEP_CHECKED, STEP_POINTS };

struct step {
    struct event *points[STEP_POINTS];
    double flops;
};

struct steps {
    struct device *device;
    struct trace *trace;
    bool checked; /* set by the caller: the products are checked */
    struct step ring[STEPS];
    int64_t count;                 /* of all steps so far */
    int64_t retired;               /* of these, the first ones, whose time is accounted for */
    struct meter products, checks; /* seconds on the device, and floating-point operations */
};

/* After a failure steps_close is still due. */
int steps_open(struct steps *steps, struct device *device, struct trace *trace, struct error *err);
void steps_close(struct steps *steps);

/* Begin a step of so many floating-point operations.  The caller enqueues its product and records
 * the other two points.  Blocks while the ring is full. */
int steps_begin(struct steps *steps, double flops, struct step **step, struct error *err);

/* Wait for all steps before `end` and account for their time, so that their events can serve
 * again.  Blocks. */
int steps_retire(struct steps *steps, int64_t end, struct error *err);

/* How many steps the device has not reached yet.  Accounts for the others; does not block. */
int64_t steps_pending(struct steps *steps, struct error *err);

/* Forget all steps so far, which the device has reached, and their time. */
void steps_forget(struct steps *steps);

/* Wait until the device has reached the event.  Blocks; a stall is reported as one of the
 * device. */
int steps_await(const struct steps *steps, struct event *event, struct error *err);
