/* Advice where the way in which a run was started, or a limit of memory, makes it slower than its
 * machine allows: what that is predicted to cost, and the remedy in the launcher's own words. */
#pragma once

#include <stdio.h>

#include "placement.h"
#include "simulate.h"

/* What the advice depends on.  The pointers stay the caller's. */
struct advice {
    const struct problem *problem;
    const struct machine *machine;
    const struct plan_request *request;
    const struct simulation *predicted; /* for the plan */
    const struct placement *placements; /* by rank; null: not known, in a dry run */
    int computers;
    int gpus; /* that a rank sees; 0 on the CPU */
};

/* Print a note for each piece of advice, in at most 80 columns.  Plans again for the machine as it
 * could be used, without any effect on the run. */
void advice_print(const struct advice *advice, FILE *out);
