/* How what is left of a product is to be multiplied, and how long that may take. */
#pragma once

#include "planner.h"
#include "simulate.h"

/* An attempt at a piece of the product (work.h). */
struct attempt {
    struct problem problem; /* the piece */
    struct plan_request request;
    struct plan plan;
    struct simulation predicted; /* rank 0 */
};

/* Plain data. */
struct outlook {
    struct attempt first;  /* at the first piece that is left */
    struct simulation all; /* rank 0: of all that was left at the start */
};

/* About how long it takes to save the sums of a planned attempt, in seconds. */
double attempt_save_seconds(const struct attempt *attempt, const struct machine *machine);

/* Rank 0: about how long it takes from a signal to stop until all is saved, in seconds: the slabs
 * at work end first. */
double attempt_stop_seconds(const struct attempt *attempt, const struct machine *machine);
