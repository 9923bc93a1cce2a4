/* Normal products, C = alpha op(A) (op(A)^T X), in one pass over A: of each slab op(B) is computed
 * where other products have its panel, checked as a product of its own, multiplied, and written to
 * its place in the output while the next slab is on its way.
 *
 * A rank's tile has all rows of C, so that its panels of A have all that a row of op(A)^T has. */
#pragma once

#include "check.h"
#include "device_matrix.h"
#include "slot.h"

struct run;
struct store;

enum { NORMAL_TURNS = 2 }; /* slabs of op(B): one leaves while the next is computed */

struct normal {
    const struct source *output; /* where op(B) goes; set by the caller, who owns it */
    struct problem problem;      /* op(B) = op(A)^T X */
    struct plan plan;
    struct device_matrix x;
    struct check check;
    void *check_memory;  /* of it, on the device; null: nothing is checked */
    struct store *store; /* the output */
    struct sink to;
    struct event *left[NORMAL_TURNS]; /* op(B)'s last slab in that place has left the device */
};

/* Part of run_open, of a normal product whose x.memory and check_memory are set: open the output of
 * op(B), and bring this rank's columns of X to the device.  After a failure normal_close is still
 * due. */
int normal_open(struct run *run, struct error *err);
void normal_close(struct run *run);

/* A slab whose panel of A is on its way: bring it, compute op(B)'s and let that leave. */
int normal_multiply(struct run *run, int64_t slab, struct error *err);

/* All of op(B) that was enqueued is checked and durable; the outlet is drained. */
int normal_settle(struct run *run, struct error *err);
