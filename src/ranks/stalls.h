/* Stall diagnostics: which rank is blocked on which.
 *
 * A rank that is stopped, or a file system that does not answer, lets all ranks wait, each for
 * another.  The first of a node's ranks whose main thread waits for the same for a minute (waits.h)
 * says so, and what the node's ranks do meanwhile; once more after two, four, eight ... */
#ifndef DGEMM_OOC_STALLS_H
#define DGEMM_OOC_STALLS_H

struct comm;
struct error;

/* Collective over the ranks of a node, which see each other's waits from here on.  A wait is long
 * from so many seconds on. */
int stalls_open(const struct comm *comm, double seconds, struct error *err);
void stalls_close(void);

/* Now and then, from one thread: look, and say it. */
void stalls_look(void);

#endif
