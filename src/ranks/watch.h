/* The watch: a rank that dies does not leave the others hanging, and one that hangs is named.
 *
 * Launchers end a job of which a rank was killed, but not all do, and not always (srun only with
 * --kill-on-bad-exit).  A thread of each rank looks once a second whether the processes of its
 * computer's other ranks are still there, as far as they are numbered together.  When one is not,
 * the first of the others says so and ends the whole job: what MPI would have to agree on cannot
 * be agreed on without the dead.  A computer that dies with all its ranks is the launcher's to
 * notice; that others wait for it is said (waits.h). */
#ifndef DGEMM_OOC_WATCH_H
#define DGEMM_OOC_WATCH_H

struct comm;

/* Collective over the ranks of a computer.  After watch_end no rank may leave before all have come
 * there. */
void watch_begin(const struct comm *comm);
void watch_end(void);

#endif
