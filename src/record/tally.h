/* What a run has done so far: counts that can be added up over ranks, for those who watch it. */
#pragma once

#include "trace.h"

/* Nothing but doubles (save.c adds them up over the ranks as such): no number of ranks and days
 * is too large for them. */
struct tally {
    double ranks;               /* that it counts */
    double tiles;               /* multiplied */
    double amount[STAGE_COUNT]; /* bytes, or floating-point operations */
    double busy_s[STAGE_COUNT];
};
