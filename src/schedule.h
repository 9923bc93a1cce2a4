/* The order of all work, as pure functions of the plan.
 *
 * Super-blocks go in serpentine order, so that at each turn one panel is the one before; within
 * a tile slabs go in ascending k.  Readers and the pipeline walk the same order, each with its
 * own cursor: the readers' cursor says what this rank reads, the pipeline's what it needs.
 * (Today the two are the same; ranks that share panels will read different parts of them.) */
#ifndef DGEMM_OOC_SCHEDULE_H
#define DGEMM_OOC_SCHEDULE_H

#include "plan.h"

int64_t schedule_supers(const struct plan *plan);

/* The tile of C that `rank` holds in super-block `super`; rows or cols are 0 where it lies
 * outside C or the rank is not in the grid. */
struct block schedule_tile(const struct problem *p, const struct plan *plan, int rank,
                           int64_t super);

/* The panel of A or B that the tile needs for one slab, in the coordinates of its file. */
struct block schedule_panel(const struct problem *p, const struct plan *plan, enum operand operand,
                            const struct block *tile, int64_t slab);

/* Strip `index` of a tile, the rows that leave the device together; empty beyond the last. */
struct block schedule_strip(const struct plan *plan, const struct block *tile, int64_t index);
int64_t schedule_strips(const struct plan *plan, const struct block *tile);

static inline bool block_equal(const struct block *x, const struct block *y)
{
    return x->row == y->row && x->col == y->col && x->rows == y->rows && x->cols == y->cols;
}

static inline bool block_empty(const struct block *b)
{
    return b->rows == 0 || b->cols == 0;
}

/* The rank's first tile in super-block *super or later, and *super set behind it; empty at the
 * end. */
struct block schedule_next_tile(const struct problem *p, const struct plan *plan, int rank,
                                int64_t *super);

/* Whether the tile finds its panels of A or B on the device, all of which the tile before it has
 * left there: it is in the same row of C, or column, and there are buffers for all of k.  `before`
 * is empty for the first tile. */
bool schedule_held(const struct plan *plan, enum operand operand, const struct block *before,
                   const struct block *tile);

/* How what is read of an operand is cut into slots. */
struct block_cut schedule_cut(const struct problem *p, const struct plan *plan,
                              enum operand operand);

/* One slot's worth of a matrix. */
struct transfer {
    enum operand operand;
    struct block block;
    /* Of a panel that the host keeps for later tiles (cache.h): */
    struct block whole; /* all of it */
    int64_t parts;      /* in which it comes */
    int64_t skip;       /* elements in the parts before this one */
    int64_t kept;       /* its place among those that are kept; -1: it is not */
    int64_t uses;       /* how often it comes again before another takes its place; of A */
    bool again;         /* it is there already, nothing is read */
};

/* All transfers from files or cache that a rank needs, in order.  Panels are read one slab ahead:
 * those of a tile's first slab come before C0 of the tile before, so that the pipeline does not
 * run empty while a tile leaves the device. */
struct cursor {
    const struct problem *problem;
    const struct plan *plan;
    int rank;
    int64_t super, stage, part;      /* super: where to look for the tile after `next` */
    struct block before, tile, next; /* the tile, and those around it */
    struct transfer panel;           /* what is being read, its newest part */
    bool reading;
};

void cursor_start(struct cursor *cursor, const struct problem *p, const struct plan *plan,
                  int rank);

/* False at the end. */
bool cursor_next(struct cursor *cursor, struct transfer *transfer);

/* What a rank moves and computes in the whole run. */
struct traffic schedule_traffic(const struct problem *p, const struct plan *plan, int rank);

#endif
