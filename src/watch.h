/* The watch: a rank that dies does not leave those of its node hanging.
 *
 * Launchers end a job of which a rank was killed, but not all do, and not always (srun only with
 * --kill-on-bad-exit).  A thread of each rank looks once a second whether the processes of its
 * node's other ranks are still there.  When one is not, the first of the others says so and all
 * leave with EXIT_RUNTIME: what MPI would have to agree on cannot be agreed on without the dead. */
#ifndef DGEMM_OOC_WATCH_H
#define DGEMM_OOC_WATCH_H

struct comm;

/* Collective over the ranks of a node: from here to watch_end. */
void watch_begin(const struct comm *comm);
void watch_end(void);

#endif
