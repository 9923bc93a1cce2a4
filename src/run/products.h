/* The products that are enqueued on the compute stream, and the time that each of them took: a
 * ring, in which a product is three points on that stream. */
#pragma once

#include "meter.h"
#include "plan.h"
#include "trace.h"

struct device;
struct error;
struct event;

enum { PRODUCTS = 2 * STRIPS_MAX + 4 };
enum product_point { PRODUCT_BEGUN, PRODUCT_MULTIPLIED, PRODUCT_CHECKED, PRODUCT_POINTS };

struct enqueued_product {
    struct event *points[PRODUCT_POINTS];
    double flops;
};

struct products {
    struct device *device;
    struct trace *trace;
    bool checked; /* set by the caller: the products are checked */
    struct enqueued_product ring[PRODUCTS];
    int64_t count;                      /* of all products so far */
    int64_t retired;                    /* of these, the first ones, whose time is accounted for */
    struct meter multiplying, checking; /* seconds on the device, and floating-point operations */
};

/* After a failure products_close is still due. */
int products_open(struct products *products, struct device *device, struct trace *trace,
                  struct error *err);
void products_close(struct products *products);

/* Begin a product of so many floating-point operations.  The caller enqueues it and records the
 * other two points.  Blocks while the ring is full. */
int products_begin(struct products *products, double flops, struct enqueued_product **product,
                   struct error *err);

/* Wait for all products before `end` and account for their time, so that their events can serve
 * again.  Blocks. */
int products_retire(struct products *products, int64_t end, struct error *err);

/* How many products the device has not reached yet.  Accounts for the others; does not block. */
int64_t products_pending(struct products *products, struct error *err);

/* Forget all products so far, which the device has reached, and their time. */
void products_forget(struct products *products);

/* Wait until the device has reached the event.  Blocks; a stall is reported as one of the
 * device. */
int products_await(const struct products *products, struct event *event, struct error *err);
