/* The progress display of a run: by rank 0, on standard error.  On a terminal one live line, drawn
 * at most four times a second; elsewhere a line a minute, for a batch log. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "tally.h"

struct ticker {
    bool on, redraws, drawn;
    double period_s;      /* between two lines */
    double started, told; /* clock_now */
    double flops;         /* of the whole product */
    double tail_s;        /* that C is expected to take when all is multiplied */
    /* Of the piece at work: */
    double done;         /* flops before it */
    uint64_t tiles;      /* that it has */
    struct tally before; /* as of the newest line */
    /* Decaying sums, of all lines so far: */
    double seconds, amount[STAGE_COUNT], busy_s[STAGE_COUNT];
};

/* Begin: `flops` of the whole product.  Says nothing where there are none, or the options are
 * against it. */
void ticker_open(struct ticker *ticker, enum progress_choice choice, bool quiet, double flops,
                 double tail_s);

/* A piece of the product begins, when so much of the whole is done. */
void ticker_begin(struct ticker *ticker, double done, uint64_t tiles);

/* How far it is, over all ranks.  Prints when it is time to. */
void ticker_tell(struct ticker *ticker, const struct tally *now);

/* Likewise, of something that precedes the product: how much of `what` is done. */
void ticker_tell_other(struct ticker *ticker, const char *what, double done);

/* Take the line off the terminal, so that something else can be printed. */
void ticker_hide(struct ticker *ticker);
