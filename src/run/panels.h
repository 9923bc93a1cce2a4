/* Panels of A and B on the device.  Each operand has a feed: a ring of buffers which hold either a
 * few panels, or those of all slabs, for the next tile in the same row or column of C, and A's for
 * the next row, as they come (plan_lead).  Panels come from the intake's slots, part by part, in
 * the order of the schedule. */
#pragma once

#include "device_matrix.h"
#include "intake.h"
#include "products.h"

struct panel {
    struct device_matrix matrix;
    struct block whole;  /* what comes: the panel or, in a triangle, that of all ranks */
    int64_t super, slab; /* for which it came; -1: none yet */
    int64_t parts;       /* of it, as it is cut into slots, whose copies are enqueued */
    int64_t marked;      /* of these, the first ones, whose copies are done with `full`: all of them
                          * where products are enqueued */
    int64_t prepared;    /* of these, the first ones, that products may read */
    struct event *full;
    struct event *used; /* the last product that reads it is done */
    int64_t products;   /* of the run, when that product was enqueued */
};

struct feed {
    struct panel *ring;
    int64_t buffers;
    struct panel *newest;        /* the one filled last */
    struct panel *current;       /* the one that the next product reads */
    struct panel part;           /* of B's panel: that of A in a triangle, where A has no ring */
    struct device_matrix factor; /* what the current panel becomes (embedding.h), where it does; the
                            * caller sets the memory */
};

struct panels {
    /* Set by the caller, who owns them. */
    const struct problem *problem;
    const struct plan *plan;
    struct device *device;
    struct intake *in;
    struct products *products;

    struct feed feeds[2];           /* of A and of B */
    struct standardize standardize; /* set by the caller: what their elements become, if the problem
                                    is scaled */
};

/* Allocate the feeds and their events.  The caller sets the memory of each panel.  After a failure
 * panels_close is still due. */
int panels_open(struct panels *panels, struct error *err);
void panels_close(struct panels *panels);

/* The panel that the next product needs, and what that reads of it. */
static inline struct panel *panels_current(const struct panels *panels, enum operand operand)
{
    return panels->feeds[operand].current;
}
const struct device_matrix *panels_factor(const struct panels *panels, enum operand operand);

/* How far panels are to come: all that comes before those of a slab of a super-block, and of these
 * what comes before a row of C.  That matters where they come in the order of C's rows: op(A)
 * unless it is transposed, and a triangle's panel (plan_comes_by_rows). */
struct reach {
    int64_t super, slab, end_row;
};

/* All of the panels of a slab. */
static inline struct reach reach_slab(int64_t super, int64_t slab)
{
    return (struct reach){super, slab, INT64_MAX};
}

/* Copy the next part of what comes to the device.  False when no part is left within the reach, or
 * something failed.
 *
 * Blocks until the part is in a slot and a buffer is free.  That cannot last for ever.  Buffers
 * wait for products that are enqueued already.  Threads fill the slots, and need of the ranks only
 * that they take parts in the order of the schedule (exchange.h).  So no rank may wait for the
 * others, as save_step does, before it has brought what these wait for: in each step all ranks
 * bring the same panels, also one without a tile, which takes what comes for its later ones. */
bool panels_bring(struct panels *panels, const struct reach *reach, struct error *err);

/* Whether any panel, or part of one, is still to come to this rank. */
bool panels_follow(const struct panels *panels);

/* Whether panels_bring would copy a part at once. */
bool panels_come(const struct panels *panels, const struct reach *reach);

/* Make the panels of B and A for one slab of the rank's tile in a super-block the current ones.
 * They have been brought, at least up to the tile's first row.  Does nothing without such a
 * tile. */
void panels_use(struct panels *panels, int64_t super, int64_t slab);

/* Before a product reads the current panel of an operand: let the compute stream wait for what has
 * been copied of it, and make of that what is multiplied (scaling.h, embedding.h), once.  Only
 * enqueues. */
int panels_prepare(struct panels *panels, enum operand operand, struct error *err);

/* Launch the kernels of that once, on an element of the panels for a slab of the tile, which are
 * the current ones, whatever they hold. */
int panels_warm_up(struct panels *panels, const struct block *tile, int64_t slab,
                   struct error *err);

/* What a matrix on the device has of a block of the file becomes what is multiplied (scaling.h).
 * Does nothing where the problem is not scaled. */
int panels_standardize(struct panels *panels, enum operand operand,
                       const struct device_matrix *matrix, const struct block *block,
                       struct error *err);

/* All products that read the current panels are enqueued. */
int panels_release(struct panels *panels, struct error *err);
