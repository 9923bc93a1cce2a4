/* The drain: finished tiles on their way from the device to C's file.  Where the plan has one tile,
 * they leave strip by strip, so that the products of the next one can follow into the same
 * accumulators; where it has two, part by part, as slots become free.  Of a rank's only tile a
 * strip may leave while later ones are multiplied. */
#pragma once

#include "check.h"
#include "comm.h"
#include "device_matrix.h"
#include "intake.h"
#include "outlet.h"

struct drain {
    const struct problem *problem;
    const struct plan *plan;
    const struct comm *comm;
    struct device *device;
    struct intake *in;  /* brings C0 */
    struct outlet *out; /* takes C, ... */
    struct sink to;     /* ... which goes there */
    struct check *check;
    bool last;                 /* nothing leaves before all is multiplied; set by the caller */
    struct recentre recentre;  /* what becomes of sums (problem_scaling.h), with the vectors of all
                               * lines; its count is 0 where they stay; set by the caller */
    struct device_matrix tile; /* that leaves; its block is empty from when all of it is enqueued */
    int64_t ready;             /* of its strips, the first ones, whose products are enqueued */
    int64_t strip;             /* of these, the one that is enqueued next */
    int64_t mirrors, part;     /* parts of its mirrors, and of itself, that are */
    void *mirror; /* a part of a symmetric product's mirror on the device, set by the caller */
    void *c0[2];  /* two parts of C0 on the device, set by the caller; they take turns */
    struct event *c0_used[2];
    /* The products of a strip are done: [1 - turn] of the tile that leaves, [turn] of the one that
     * is multiplied meanwhile. */
    struct event *multiplied[2][STRIPS_MAX];
    int turn;
    struct event *drained[STRIPS_MAX]; /* a strip has left the device */
    int64_t parts;                     /* of strips, combined so far */
};

/* Create the events of a drain whose other members the caller has set.  After a failure
 * drain_close is still due. */
int drain_open(struct drain *drain, struct error *err);
void drain_close(struct drain *drain);

/* Whether kernels of the device work on what is drained. */
bool drain_computes(const struct drain *drain);

/* What makes a part of the tile that part of C, from the buffer of C0 whose turn it is. */
struct combine drain_combine(const struct drain *drain, const struct block *part);

/* Whether each rank has one tile, to which no C0 is added: no product follows into the memory of a
 * strip of the last slab, which may leave while others are multiplied. */
bool drain_is_early(const struct drain *drain);

/* The tile is finished, or if drain_is_early its last slab is not multiplied yet.  All of the tile
 * before is enqueued.  Products enqueued later wait until that one has left the device, since they
 * go into its memory where the plan has two tiles. */
int drain_begin(struct drain *drain, const struct device_matrix *tile, struct error *err);

/* The last products of strip `index` are enqueued, of the tile that is multiplied. */
int drain_multiplied(struct drain *drain, int64_t index, struct error *err);

/* Whether strip `index` of the finished tile, or one before it, is not enqueued yet. */
static inline bool drain_has(const struct drain *drain, int64_t index)
{
    return !block_empty(&drain->tile.block) && drain->strip <= index;
}

/* Whether the products of a strip that has not left are done. */
bool drain_can(const struct drain *drain);

/* Enqueue the next part of the finished tile, which it has, once its products are done: of a
 * strip's mirrors or, after these, of the strip.  Products enqueued later wait until the strip has
 * left the device, if they go into the same memory.  Blocks until C0's part has come, which is the
 * next to come, and a slot of the outlet is free, which the disk alone decides. */
int drain_part(struct drain *drain, struct error *err);

/* All that is not enqueued yet.  Ends early with ERROR_ELSEWHERE when another rank has failed. */
int drain_rest(struct drain *drain, struct error *err);

/* Where saved sums go: so many rows below their place in C. */
struct saved_place {
    const struct sink *sink;
    int64_t shift;
};

/* Enqueue copies of the mirror (schedule.h) of the strip's sums, as they are, to their place. */
int drain_sums_mirror(struct drain *drain, const struct device_matrix *acc, int64_t index,
                      const struct saved_place *to, struct error *err);
