/* The whole run in simulated time, step by step, before anything is there to run it on.
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
 * - A tile leaves strip by strip beside its last product and the next tile's first one, as far as
 *   slots out are free or the disk takes what is in them.
 * - Where bytes are written and others are to be read, the file system reads as many less, as long
 *   as it writes; one in memory half as many, at once.
 *
 * Ignored: the time to the first byte of a slot or a message, links between switches, unequal
 * nodes, and that C0's strips take slots of the ring too. */
#ifndef DGEMM_OOC_SIMULATE_H
#define DGEMM_OOC_SIMULATE_H

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
    struct usage usage[RESOURCE_COUNT];
    enum resource limit; /* the busiest */
    double factor;       /* traffic of the file system over the plan's lower bound */
    int nodes;
    int64_t slabs_a_step; /* more than one where ranks, tiles and slabs are too many */
};

/* Complains only when there is no memory for it: about a kilobyte a rank. */
int simulate(const struct problem *problem, const struct machine *machine,
             const struct plan_request *request, const struct plan *plan,
             struct simulation *simulation, struct error *err);

const char *simulate_resource_name(enum resource resource);

/* Print it, in at most 80 columns. */
void simulate_print(const struct simulation *simulation);

/* Print the time that it took, and what limits it: the prediction of a dry run. */
void simulate_print_time(const struct simulation *simulation);

#endif
