/* What the parts of the online check share. */
#pragma once

#include "check.h"

/* The last word of left_out. */
static inline int *check_found(const struct check *c)
{
    return c->memory.left_out + c->plan->tile_cols;
}

/* Of the tile's rows from row `skip` on: what complete blocks of k have come to; null where k is
 * one. */
static inline double *check_carried(const struct check *c, int64_t skip)
{
    return c->memory.carried ? c->memory.carried + skip * c->classes : NULL;
}

static inline double *check_carried_squares(const struct check *c, int64_t skip)
{
    return c->memory.carried ? c->memory.carried_squares + skip * c->classes : NULL;
}

/* Columns of the tile that are multiplied for some of its rows. */
int64_t check_columns_of(const struct check *c, int64_t skip, int64_t rows);

/* The tile's row `skip` of the accumulators. */
static inline const void *check_row_of(const struct check *c, const void *acc, int64_t skip)
{
    return (const char *)acc +
           (size_t)(skip * c->plan->ld[OPERAND_C]) * scalar_size(c->problem->type);
}

/* The sums that wait, from the tile's row `skip` on.  Their number. */
int check_waiting(const struct check *c, int64_t skip, const void *sums[FOLD_MOST]);

/* Host to device, ahead of all work that is enqueued on the compute stream from now on. */
int check_send(struct check *c, void *to, const void *from, size_t bytes, struct error *err);

/* Some rows of the tile, from row `skip` on, and where their sketch goes, or what it is added
 * to. */
struct sketched {
    int64_t skip, rows;
    double *sums, *squares;
    bool partial, adds;
};
int check_sketch(struct check *c, const struct sketched *sketched, const void *acc,
                 struct error *err);

/* Of one pass over the slab's columns: that of the strip that begins with row `skip` or, where that
 * strip and those above it have all columns, of the first of them that has. */
double *check_norms(const struct check *c, int64_t skip, int64_t part);

/* What takes columns that are left out back, of the tile's rows from row `skip` on; from which
 * sums, the caller says. */
struct retire check_retired(const struct check *c, int64_t skip, int64_t cols);

/* Compare some rows at the end of a group, which is number `part` of the slab. */
struct group_end {
    int64_t skip, rows, part, steps;
    bool partial; /* other groups of the slab follow */
};

/* Compare y with z, the sketch of the accumulators as they are. */
int check_compare(struct check *c, const struct group_end *end, const void *acc, struct error *err);

/* The verdicts that are on the host, and the two counts behind them. */
double *check_host_verdicts(const struct check *c);
