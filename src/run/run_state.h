/* What the run of one rank consists of. */
#pragma once

#include "c_file.h"
#include "cache.h"
#include "drain.h"
#include "exchange.h"
#include "panels.h"
#include "planner.h"
#include "saver.h"
#include "statistics.h"
#include "window.h"

struct run {
    /* Set by the caller, who owns them. */
    const struct problem *problem;
    const struct plan *plan;
    const struct plan_request *request;
    const struct source *output;
    struct comm *comm;
    struct device *device;
    struct trace *trace;
    const struct piece *piece;           /* which `problem` is */
    const struct statistics *statistics; /* of a problem that is scaled; stay in place */
    struct saver saver;                  /* of it: done, met, stops, context, names, known */

    /* From files to slots: what the ranks of the node share. */
    struct store *stores[OPERAND_COUNT]; /* inputs; C is C0 */
    struct window window;
    struct intake in;
    struct cache cache;
    struct exchange exchange; /* with other nodes */

    /* On the device. */
    char *memory;             /* all of it, carved up by run_open.c */
    size_t carved;            /* bytes of it in use */
    void *lines[3];           /* means, what rounding these left, and deviations */
    struct device_matrix acc; /* accumulators of the tile at work; its block is empty without one */
    struct {
        void *tiles[2];           /* accumulators of the plan's tiles, which take turns */
        void *waiting[FOLD_MOST]; /* sums of blocks of k that wait, by their levels (sums.h) */
    } sums;
    struct panels panels;     /* of A and B */
    struct products products; /* the products that are enqueued */
    struct residues residues; /* of products in residues, ... */
    void *workspace;          /* ... and where they work; null: the products are others */
    struct check check;       /* seed, which signs for residues have, too, rounded and map: set by
                                 the caller */
    int64_t tiles;            /* that are multiplied */

    /* From the device to C. */
    struct drain drain;
    struct outlet out;
    struct c_file c;
};

/* What this rank has done so far.  By the main thread; the others go on. */
void run_totals(const struct run *run, struct run_totals *done);

/* Let no rank of this node wait for another. */
void run_stop(struct run *run);
