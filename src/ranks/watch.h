/* The watch: when a rank dies the job ends instead of hanging, and a rank that hangs is named.
 *
 * Not all launchers end a job when one of its ranks was killed (srun does only with
 * --kill-on-bad-exit).  A thread of each rank looks once a second whether the processes of the
 * other ranks of its computer still exist, as far as they see each other's process numbers.  When
 * one does not, the first of the others prints that and ends the whole job, since MPI cannot agree
 * on anything without that rank.  The death of a computer with all its ranks must be noticed by
 * the launcher; that others wait for it is printed (waits.h). */
#pragma once

struct comm;

/* Collective over the ranks of a computer.  No rank may end before all of them have returned from
 * watch_end. */
void watch_begin(const struct comm *comm);
void watch_end(void);
