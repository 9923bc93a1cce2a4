/* What a process has once, whatever runs in it: MPI, its signals, its standard streams, what it
 * leaves behind when it ends.  main.c alone joins and leaves; a program that has its own MPI and
 * signals needs only a struct comm (comm_impl.h). */
#pragma once

#include <stdbool.h>

struct comm;
struct error;

/* Before all else: streams that are open, and errors instead of signals.  Complains where the
 * limits of this process would let MPI crash. */
int process_begin(struct error *err);

/* Collective.  Start MPI, open its ranks, form their nodes and watch that none of them dies; a
 * process that no launcher has started is alone, and needs no MPI.  From now on signals ask for
 * checkpoints (stop.h).  Where a library ends this process, as libgomp does when no thread can be
 * started, or aborts it, it removes what is of no use to another run (leftovers.h) and says so;
 * where it does not abort, it exits with EXIT_RESOURCES.  Complains, possibly on some ranks only,
 * when the launcher started several ranks of which MPI sees each as a run of its own. */
int process_join(struct comm *comm, struct error *err);

/* Whether MPI has started in this process, and not ended.  Anybody may ask. */
bool process_has_mpi(void);

/* Collective.  From now on this process may end. */
void process_leave(struct comm *comm);
