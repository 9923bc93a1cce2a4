/* What would make a run faster.  Before it: where the way in which it was started, or a limit of
 * memory, makes it slower than its machine allows, what that is predicted to cost, and the remedy
 * in the launcher's own words.  After it: what it was limited by. */
#pragma once

#include "report.h"

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

/* Set the report's advice by what a run has measured, with GPUs or without.  `plan`: that of its
 * only attempt; null where there were others, of whose reading it says nothing.  The advice stays
 * empty where nothing is known. */
void advice_after(const struct problem *p, const struct plan *plan, bool gpu,
                  struct report *report);
