/* The whole run in simulated time, step by step: the prediction of how long the chosen plan takes,
 * for a run and for a dry run.
 *
 * A step is one slab of one super-block.  In the order of the schedule each step asks every
 * resource that it needs for its time: the file system, which all nodes share; each node's link to
 * it and to the other nodes; each rank's bus and device.  A resource serves in the order in which
 * it is asked, one after the other, and keeps nothing but the time at which it is free again.  What
 * it hands on goes to the next resource while it is still coming, as slots do, so that a chain of
 * resources runs at the pace of its slowest.  So all times are maxima and sums of other times:
 * nothing ever ends later because something else is faster, or because there is more of it.
 *
 * - Ranks of a node share a ring of slots: a panel comes to a node once and is copied to every
 *   device there that needs it.  Reading stays ahead of copying by what the ring holds.
 * - B's panel comes before A's, those of several rows or columns of the grid in turns.
 * - Nodes that need the same panel read equal parts of it and send each other theirs, at the pace
 *   that the plan expects of the network; the first parts have to get through all of them.
 * - A device is filled for one slab while it multiplies the one before.  Panels that it holds, or
 *   that the host keeps, are not read again.
 * - A tile is drained strip by strip during its last product, once its last panels have come, and
 *   the next tile's first one, or all of its products where the device holds two tiles: as far as
 *   slots out are free or the disk writes what is in them.
 * - A disk that writes bytes reads as many less meanwhile.  Memory does both at the same time, but
 *   is read more slowly meanwhile, and beside several GPUs that copy out of it; and the threads
 *   that move all bytes need their time for that.
 *
 * Ignored: the time to the first byte of a slot or a message, links between switches, unequal
 * nodes, that products follow A's first panels as they come, that A's panels may come ahead
 * (plan_lead), and that C0's strips take slots of the ring too. */
#pragma once

#include "planner.h"

enum resource {
    RESOURCE_READ,     /* the file system */
    RESOURCE_LINK_IN,  /* from it to a node */
    RESOURCE_SEND,     /* from a node to the others */
    RESOURCE_RECEIVE,  /* from the others to a node */
    RESOURCE_CACHE,    /* a node's copies of what its host keeps */
    RESOURCE_IN,       /* host to device */
    RESOURCE_GEMM,     /* the device */
    RESOURCE_OUT,      /* device to host */
    RESOURCE_LINK_OUT, /* from a node to the file system */
    RESOURCE_WRITE,    /* the file system */
    RESOURCE_COUNT
};

struct usage {
    int count;     /* of such resources */
    double amount; /* bytes, or floating-point operations, through all of them */
    double busy_s; /* of the busiest */
};

/* Plain data. */
struct simulation {
    double wall_s;
    double before_s; /* the part of it that means and deviations take first */
    struct usage usage[RESOURCE_COUNT];
    enum resource limit;            /* the busiest */
    double disk_bytes, bound_bytes; /* the plan's traffic with the disk, and its lower bound */
    int nodes;
    int pieces; /* whose times these are together */
};

/* Simulate the run.  Pure.  It takes about 0.1 us for each rank and step, a second at most, and
 * hardly ever more than 1 % of the time that it predicts, or 10 ms: where there are too many
 * steps, several slabs are one step, and where there are too many super-blocks, later rows of them
 * are assumed to be like those before.  It needs about a kilobyte for each rank; without that
 * memory the plan's roofline is the predicted time. */
void simulate(const struct problem *problem, const struct machine *machine,
              const struct plan_request *request, const struct plan *plan,
              struct simulation *simulation);

/* Let so many seconds pass for means and deviations before a simulated run. */
void simulation_begin_after(struct simulation *simulation, double seconds);

/* Add a simulation of what follows after the first. */
void simulation_add(struct simulation *sum, const struct simulation *more);
