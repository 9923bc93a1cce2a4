/* The progress of the product, as a phase (phase.h): what the ranks have multiplied, how fast, and
 * which stage is the busiest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "timeline.h"

enum { TICKER_BYTES = 128 };

struct ticker {
    double flops;  /* of the whole product */
    double tail_s; /* that C is expected to take when all is multiplied */
    bool gpu;      /* which names the stages */
    /* Of the piece at work: */
    double done;              /* flops before it */
    uint64_t tiles;           /* that it has */
    struct run_totals before; /* as it was told last, */
    double told;              /* clock_now, then */
    /* Decaying sums, of all that was told so far: */
    double seconds, amount[STAGE_COUNT], busy_s[STAGE_COUNT];
    char details[TICKER_BYTES]; /* what follows from these */
};

/* A piece of the product begins, when so much of the whole is done. */
void ticker_begin(struct ticker *ticker, double done, uint64_t tiles);

/* How far it is, over all ranks. */
void ticker_tell(struct ticker *ticker, const struct run_totals *now);

/* The last piece has ended. */
void ticker_end(struct ticker *ticker);
