/* How busy every stage of a rank was, and what it moved, over time.  A timeline takes the same
 * memory for any run: when its bins are full, pairs of them are merged. */
#pragma once

#include "plan.h"

enum { TIMELINE_BINS = 512 };

struct timeline {
    double start;                              /* on the host's clock */
    double width;                              /* seconds of a bin, of all ranks 1 us times 2^i */
    double busy_s[STAGE_COUNT][TIMELINE_BINS]; /* of each bin */
    double amount[STAGE_COUNT][TIMELINE_BINS]; /* bytes, or floating-point operations */
};

/* Begin at `now` (clock_now); the timeline is zero before. */
void timeline_begin(struct timeline *timeline, double now);

/* Add that a stage was busy between two times (clock_now), and moved or computed `amount`. */
void timeline_add(struct timeline *timeline, enum stage stage, double begin, double end,
                  double amount);

/* Merge bins until they are at least so many seconds wide. */
void timeline_widen(struct timeline *timeline, double width);

/* What a run has done so far, for those who watch it.  Nothing but doubles (save.c adds them up
 * over the ranks as such): no number of ranks and days is too large for them. */
struct run_totals {
    double ranks;               /* that it counts */
    double tiles;               /* multiplied */
    double amount[STAGE_COUNT]; /* bytes, or floating-point operations */
    double busy_s[STAGE_COUNT];
};
