/* What a run has done so far: counts that can be added up over ranks, for those who watch it. */
#ifndef DGEMM_OOC_TALLY_H
#define DGEMM_OOC_TALLY_H

#include <stdint.h>

#include "trace.h"

struct run;

/* Nothing but numbers of 64 bits (save.c adds them up over the ranks as such). */
struct tally {
    uint64_t ranks;               /* that it counts */
    uint64_t tiles;               /* multiplied */
    uint64_t amount[STAGE_COUNT]; /* bytes, or floating-point operations */
    uint64_t busy_ns[STAGE_COUNT];
};

/* Of this rank, now.  By the main thread; the others go on. */
void tally_take(const struct run *run, struct tally *tally);

#endif
