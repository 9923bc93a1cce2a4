/* Stall diagnostics: which rank is blocked on which.
 *
 * When a rank is stopped, or a file system does not answer, all ranks wait, each for another one.
 * The first rank of a node whose main thread has waited for the same thing for a minute (waits.h)
 * prints that, and what the other ranks of the node do meanwhile; again after two minutes, four,
 * eight ... */
#pragma once

struct comm;
struct error;

/* Collective over the ranks of a node, which see each other's waits from now on.  A wait of so many
 * seconds is a stall. */
int stalls_open(const struct comm *comm, double seconds, struct error *err);
void stalls_close(void);

/* Look for stalls and print them.  To be called now and then, by one thread. */
void stalls_look(void);
