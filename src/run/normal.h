/* Normal products, C = alpha op(A) (op(A)^T X), in one pass over A: of each slab op(B) is computed
 * where other products have its panel, checked as a product of its own, multiplied, and written to
 * its place in the output while the next slab is on its way.
 *
 * A rank's tile has all rows of C, so that its panels of A have all that a row of op(A)^T has. */
#pragma once

#include "check.h"
#include "device_matrix.h"
#include "outlet.h"
#include "panels.h"

struct store;

enum { NORMAL_TURNS = 2 }; /* slabs of op(B): one leaves while the next is computed */

struct normal {
    /* Set by the caller, who owns them: */
    const struct source *output; /* where op(B) goes */
    struct store *from;          /* of X */
    struct device *device;
    struct panels *panels; /* of the whole product */
    struct products *products;
    struct outlet *out;

    struct problem problem; /* op(B) = op(A)^T X */
    struct plan plan;
    struct device_matrix x;
    struct check check;
    void *check_memory;  /* of it, on the device; null: nothing is checked */
    struct store *store; /* the output */
    struct sink to;
    struct event *left[NORMAL_TURNS]; /* op(B)'s last slab in that place has left the device */
};

/* Open the output of op(B), and bring this rank's columns of X to the device.  x.memory,
 * check_memory, and the seed and retry_on_failure of the check are set, too.  `tile`: the rank's.
 * After a failure normal_close is still due. */
int normal_open(struct normal *normal, const struct block *tile, enum algorithm algorithm,
                struct error *err);
void normal_close(struct normal *normal);

/* A slab whose panel of A is on its way: bring it, compute op(B)'s and let that leave. */
int normal_multiply(struct normal *normal, int64_t slab, struct error *err);

/* All of op(B) that was enqueued is checked and durable; the outlet is drained.  Where some of it
 * is wrong, the tile is, too, of whose products `whole` is the check. */
int normal_settle(struct normal *normal, struct check *whole, struct error *err);
