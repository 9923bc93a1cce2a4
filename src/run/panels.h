/* Panels of A and B on the device.  Each operand has a feed: a ring of buffers which hold either a
 * few panels, or those of all slabs, for the next tile in the same row or column of C, and A's for
 * the next row, as they come (plan_lead).  Panels come from the intake's slots, part by part, in
 * the order of the schedule. */
#pragma once

#include "intake.h"
#include "matrix.h"
#include "steps.h"

struct panel {
    struct matrix matrix;
    struct block whole;  /* what comes: the panel or, in a triangle, that of all ranks */
    int64_t super, slab; /* for which it came; -1: none yet */
    int64_t parts;       /* of it, as it is cut into slots, whose copies are enqueued */
    int64_t marked;      /* of these, the first ones, whose copies are done with `full`: all of them
                          * where products are enqueued */
    int64_t prepared;    /* of these, the first ones, that products may read */
    struct event *full;
    struct event *used; /* the last product that reads it is done */
    int64_t steps;      /* of the run, when that product was enqueued */
};

struct feed {
    struct panel *ring;
    int64_t buffers;
    struct panel *newest;  /* the one filled last */
    struct panel *current; /* the one that the next product reads */
    struct panel part;     /* of B's panel: that of A in a triangle, where A has no ring */
    struct matrix factor;  /* what the current panel becomes (embedding.h), where it does; the
                            * caller sets the memory */
};

struct panels {
    const struct problem *problem;
    const struct plan *plan;
    struct device *device;
    struct intake *in;
    struct steps *steps;
    struct feed feeds[2];        /* of A and of B */
    struct standardize standard; /* set by the caller: what their elements become, if the problem
                                    has a standard */
    int (*between)(void *context, struct error *err); /* set by the caller: what is done between
                                                         parts that come; must not wait for
                                                         panels */
    void *context;
    struct block tile; /* the one whose panels are current */
    int64_t step;      /* the newest one that was loaded (schedule_step) */
    int64_t wanted;    /* the one up to which panels_try may bring; -1: none */
};

/* Allocate the feeds and their events; `in` and `steps` stay the caller's.  The caller sets the
 * memory of each panel.  After a failure panels_close is still due. */
int panels_open(struct panels *panels, const struct problem *p, const struct plan *plan,
                struct device *device, struct intake *in, struct steps *steps, struct error *err);
void panels_close(struct panels *panels);

/* The panel that the next product needs, and what that reads of it. */
static inline struct panel *panels_current(const struct panels *panels, enum operand operand)
{
    return panels->feeds[operand].current;
}
const struct matrix *panels_factor(const struct panels *panels, enum operand operand);

/* Make the panels of B and A for one slab of the rank's tile in a super-block the current ones.  Of
 * what comes in the order of C's rows, which is op(A) unless it is transposed and a triangle's
 * panel (plan_comes_by_rows), it brings what comes before the end of the tile's rows or, if not
 * `all`, before the first of them.  A rank without a tile there takes what comes for its later
 * ones, as all ranks must in every step.  Super-blocks and slabs come in ascending order.  Blocks
 * until slots are full and buffers are free. */
int panels_load(struct panels *panels, int64_t super, int64_t slab, bool all, struct error *err);

/* Copy what the first `rows` rows of the tile need of these panels to the device, as far as it is
 * not there; of a triangle's all for the rows of the triangle.  Blocks until slots are full. */
int panels_fill(struct panels *panels, int64_t rows, struct error *err);

/* Before the last slab of a tile is multiplied: bring the first slab of the next super-block,
 * which panels_load then finds on the device.  Does nothing where there are too few buffers.
 * Blocks as panels_load does. */
int panels_prefetch(struct panels *panels, int64_t super, struct error *err);

/* From now until the next load, panels_try may bring what comes up to that slab. */
void panels_want(struct panels *panels, int64_t super, int64_t slab);

/* Whether a part of what comes up to the step after the one that was loaded last has been read, and
 * there is room for it.  Does not block. */
bool panels_come(const struct panels *panels);

/* Copy one more part of what is wanted to the device, if it has been read and there is room for it.
 * Does not block.  False when there is none, or something failed. */
bool panels_try(struct panels *panels, struct error *err);

/* Before a product reads the current panel of an operand: let the compute stream wait for what has
 * been copied of it, and make of that what is multiplied (standard.h, embedding.h), once.  Only
 * enqueues. */
int panels_prepare(struct panels *panels, enum operand operand, struct error *err);

/* Launch the kernels of that once, on an element of the panels for a slab of the tile, which are
 * the current ones, whatever they hold. */
int panels_warm_up(struct panels *panels, const struct block *tile, int64_t slab,
                   struct error *err);

/* What a matrix on the device has of a block of the file becomes what is multiplied (standard.h).
 * Does nothing where the problem has no standard. */
int panels_standardize(struct panels *panels, const struct matrix *matrix,
                       const struct block *block, struct error *err);

/* All products that read the current panels are enqueued. */
int panels_release(struct panels *panels, struct error *err);
