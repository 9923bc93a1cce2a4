/* What the run of one rank consists of. */
#pragma once

#include "c_file.h"
#include "cache.h"
#include "census.h"
#include "drain.h"
#include "exchange.h"
#include "normal.h"
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
    const struct piece *piece;     /* which `problem` is */
    struct statistics *statistics; /* of a problem that is scaled; stay in place */
    struct saver saver;            /* of it: done, met, stops, context, names, known */

    /* From files to slots: what the ranks of the node share. */
    struct store *stores[OPERAND_COUNT]; /* inputs; C is C0 */
    struct window window;
    struct intake in;
    struct cache cache;
    struct exchange exchange; /* with other nodes */

    /* On the device. */
    char *memory;             /* all of it, carved up by run_open.c */
    size_t carved;            /* bytes of it in use */
    struct device_matrix acc; /* accumulators of the tile at work; its block is empty without one */
    struct {
        void *tiles[2];           /* accumulators of the plan's tiles, which take turns */
        void *waiting[FOLD_MOST]; /* sums of blocks of k that wait, by their levels (sums.h) */
    } sums;
    struct panels panels;              /* of A and B */
    struct {                           /* of a problem that is scaled: */
        struct statistics *statistics; /* the caller's; stay in place */
        struct census *census; /* of A, as it is read; null: they are known, or not needed */
        void *vectors[4]; /* on the device: means, what rounding these left, deviations; or shifts,
                           * offsets, scales, spreads (lines.h) */
        bool again;       /* C has to be multiplied again, with other shifts; it is not drained */
    } lines;
    struct normal normal;     /* of a normal product */
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

/* The statistics are known: what they make of sums follows when these are drained. */
int run_recentre(struct run *run, struct error *err);

/* Collective, when the main thread alone uses MPI.  Whether this rank, with `err`, or another one
 * has failed; then so does this one, with ERROR_ELSEWHERE. */
bool run_fails_anywhere(struct run *run, struct error *err);

/* Let no rank of this node wait for another. */
void run_stop(struct run *run);
