/* The run of one rank: the pipeline of the design, from files through slots and device to the
 * output. */
#ifndef DGEMM_OOC_RUN_H
#define DGEMM_OOC_RUN_H

#include "bands.h"
#include "cache.h"
#include "check.h"
#include "comm.h"
#include "exchange.h"
#include "intake.h"
#include "outlet.h"
#include "planner.h"
#include "save.h"
#include "store.h"
#include "trace.h"
#include "window.h"

/* A panel of A or B on the device. */
struct panel {
    void *memory;
    struct block block; /* what it holds, in its file's coordinates */
    int64_t parts;      /* of it, in which it is copied in, that are on their way or there */
    struct event *full; /* they are there */
    struct event *used; /* the last product that reads it is done */
    int64_t steps;      /* that there were by then */
};

/* A slab that may come to the device before it is the current one. */
struct ahead {
    struct block tile; /* empty: none may */
    int64_t slab;
    bool begun[2]; /* its panels of A and of B are the newest */
};

enum { STEP_EVENTS = 3, STEPS = 2 * STRIPS_MAX + 4 };

/* Points on the compute stream around one product: begin, product done, check done. */
struct step {
    struct event *events[STEP_EVENTS];
    double flops;
};

struct run {
    /* set by the caller, who owns them */
    const struct problem *problem;
    const struct plan *plan;
    const struct plan_request *request;
    const struct matrix_info *output_info;
    struct comm *comm;
    struct device *device;
    struct trace *trace;
    struct tiles *map;         /* of C; null: nobody wants to know */
    const struct piece *piece; /* which `problem` is */
    uint64_t seed;             /* of the check's weights */
    struct saver saver;        /* of it: done, met, context */

    struct store *stores[OPERAND_COUNT]; /* inputs; C is C0 */
    struct store *output;
    struct window window; /* what the ranks of the node share: */
    struct intake in;
    struct cache cache;
    struct exchange exchange; /* with other nodes */
    struct outlet out;
    struct panel *panels[2];  /* of A and of B: rings */
    struct panel *newest[2];  /* of them, the one filled last */
    struct panel *current[2]; /* and the one that the next product reads */
    struct ahead ahead;
    char *memory;  /* all device memory, carved up by run_open.c */
    size_t carved; /* bytes of it in use */
    void *acc;     /* the tile's accumulators */
    void *c0[2];   /* parts of C0 on the device */
    struct event *c0_used[2];
    struct block leaving;             /* the finished tile, until all its strips have left */
    struct event *summed[STRIPS_MAX]; /* the strip's products are done */
    struct event *left[STRIPS_MAX];   /* and it has left the device */
    int64_t parts_left;               /* parts of strips so far: they take turns with c0 */
    struct step steps[STEPS];         /* a ring */
    int64_t step_count;               /* so far */
    int64_t settled;                  /* whose time is accounted for */
    int64_t tiles;                    /* that are multiplied */
    struct check check;
    struct checksum checksum;        /* of C; closed when it is not checked */
    _Atomic uint64_t written[BANDS]; /* the checksum of what this rank has written of C */
    _Atomic int64_t prepared;        /* pieces of C's file that are ready to be written to */

    struct meter products, checks; /* on the device */
};

/* Where element (row, col) of a device matrix lies. */
static inline void *run_element(const struct run *run, void *matrix, int64_t ld, int64_t row,
                                int64_t col)
{
    return (char *)matrix + (size_t)(row * ld + col) * scalar_size(run->problem->type);
}

/* Collective.  Open the files, take C's space, allocate everything that the plan counts and let the
 * readers begin; all but the first members of `run` are zero.  After a failure run_close is still
 * due. */
int run_open(struct run *run, struct error *err);

/* Part of run_open: load the kernels. */
int run_warm_up(struct run *run, struct error *err);

/* Compute all tiles of this rank and wait until they are in the output (but not yet synced).  Ends
 * early, with ERROR_ELSEWHERE and no complaint, when another rank raised or stopped the node's
 * intake. */
int run_execute(struct run *run, struct error *err);

/* What remains of the tile that is leaving, to the output. */
int run_leave(struct run *run, struct error *err);

/* Copy a part of a tile's accumulators into a slot and on to whatever is written now. */
int run_take_out(struct run *run, const struct block *tile, const struct block *part,
                 struct error *err);

/* Wait for the device to come to that point. */
int run_await(struct run *run, struct event *event, struct error *err);

/* Wait for all products that are enqueued, or those before that step, and account for them. */
int run_settle(struct run *run, struct error *err);
int run_settle_until(struct run *run, int64_t end, struct error *err);

/* Let no rank of this node wait for another. */
void run_stop(struct run *run);

/* Collective. */
void run_close(struct run *run);

#endif
