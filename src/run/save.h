/* Checkpoints: saving a run while it is at work, so that another run can resume from there.
 *
 * Between two slabs the ranks vote on whether to save or to stop (stop.h), and report their
 * progress: at least a few times a second, however slow the run is against its plan, or with every
 * second slab where slabs take longer.  All of them save at the same slab.  The sums of the tiles
 * at work, which have been checked, are made durable in one of two files beside C, which are used
 * in turn, so that the last checkpoint stays whole until this one is; then what is complete of C;
 * then `done` is called, which records it (journal.h).
 *
 * A checkpoint that fails, for lack of space or for another reason, does not end the run: a warning
 * is printed, and the next one tries again.  Only C itself must be written. */
#pragma once

#include "saver.h"

struct run;

/* Part of run_open: how far apart votes may be, and which file of sums comes first.  Opens no file;
 * cannot fail.  save_close closes the files that were opened since. */
void save_open(struct run *run);
void save_close(struct run *run);

/* Collective.  A step is enqueued, and with it the first `slabs` of the super-block.  Saves where
 * a rank has asked for it.  EXIT_STOPPED when the run is to end. */
int save_step(struct run *run, int64_t super, int64_t slabs, struct error *err);

/* Collective, after the last step: end the vote that is in flight. */
int save_finish(struct run *run, struct error *err);

/* Collective, before run_execute.  Load the sums that an earlier run has saved of this piece into
 * the accumulators.  `whole`: they are what was saved. */
int save_load(struct run *run, bool *whole, struct error *err);
