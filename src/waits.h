/* Who waits for whom: what each rank does, for the others of its node to see.
 *
 * A rank that is stopped, or a file system that does not answer, lets all ranks wait, each for
 * another.  The first of a node's ranks whose main thread waits for the same for a minute says so,
 * and what the node's ranks do meanwhile; once more after two, four, eight ...  For tests
 * DGEMM_OOC_TEST_WAIT=S makes S seconds of the minute. */
#ifndef DGEMM_OOC_WAITS_H
#define DGEMM_OOC_WAITS_H

#include <stdbool.h>

struct comm;
struct error;
struct transfer;

enum wait { WAIT_FOR_PANEL, WAIT_FOR_SLOT, WAIT_FOR_DEVICE, WAIT_FOR_RANKS, WAIT_FOR_RANK };

/* Collective over the ranks of a node.  Without them the other functions do no harm. */
int waits_open(const struct comm *comm, struct error *err);
void waits_close(void);

/* The main thread begins to wait, of a panel for that transfer from that rank (-1: of this node),
 * or for that rank; and goes on. */
void wait_begin(enum wait what);
void wait_begin_panel(const struct transfer *transfer, int from);
void wait_begin_rank(int rank);
void wait_end(void);

/* The exchange's thread: the oldest message that is not through is from now on one from or to that
 * rank; or there is none. */
void wait_begin_message(int peer, bool comes);
void wait_end_message(void);

/* Any thread: another file operation has begun (1) or ended (-1). */
void wait_file(int change);

/* Now and then, from one thread: look, and say it. */
void waits_look(void);

#endif
