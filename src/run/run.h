/* The run of one rank: the pipeline of the design, from files through slots and device to the
 * output. */
#pragma once

#include "run_state.h"

/* Collective.  Open the files, take C's space, allocate everything that the plan counts and let the
 * readers begin; all but the first members of `run` are zero.  After a failure run_close is still
 * due. */
int run_open(struct run *run, struct error *err);

/* Part of run_open: load the kernels. */
int run_warm_up(struct run *run, struct error *err);

/* Compute all tiles of this rank and wait until they are in the output, and synced.  Ends early,
 * with ERROR_ELSEWHERE and no complaint, when another rank raised or stopped the node's
 * intake. */
int run_execute(struct run *run, struct error *err);

/* Collective. */
void run_close(struct run *run);
