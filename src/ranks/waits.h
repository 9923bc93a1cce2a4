/* What this process waits for, visible to the other ranks of its node; and stall diagnostics: which
 * rank is blocked on which.
 *
 * When a rank is stopped, or a file system does not answer, all ranks wait, each for another one.
 * The first rank of a node whose main thread has waited for the same thing for a minute prints
 * that, and what the other ranks of the node do meanwhile; again after two minutes, four, eight
 * ... */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct transfer;

enum wait {
    WAIT_FOR_NOTHING,
    WAIT_FOR_PANEL,
    WAIT_FOR_SLOT,
    WAIT_FOR_DEVICE,
    WAIT_FOR_RANKS,
    WAIT_FOR_RANK, /* to get as far; to take or to send a message: */
    WAIT_TO_SEND,
    WAIT_TO_RECEIVE
};

/* What one rank waits for.  Times as clock_now's, in milliseconds. */
struct waits {
    pid_t process;
    _Atomic int64_t beat; /* when it looked last */
    struct waiting {
        _Atomic int what, operand, rank; /* rank: -1: none */
        _Atomic int64_t slab, since;
    } main, message;       /* its main thread; the oldest message that is in flight */
    _Atomic int files;     /* operations at work, */
    _Atomic int64_t moved; /* and when the last of them began or ended */
};

/* From now on this process is number `mine` of the `count` ranks of its node, which see each
 * other's waits in `records`, zero at first; the rank of the first of them is `first`.  A wait of
 * so many seconds is a stall. */
void waits_open(struct waits *records, int count, int mine, int first, double seconds);
void waits_close(void);

/* Look for stalls and print them.  To be called now and then, by one thread. */
void waits_look(void);

/* The main thread begins to wait: for something, for the panel of that transfer, which comes from
 * rank `from` (-1: this node reads it), or for a rank; and its wait ends. */
void wait_begin(enum wait what);
void wait_begin_panel(const struct transfer *transfer, int from);
void wait_begin_rank(int rank);
void wait_end(void);

/* The exchange's thread: the oldest message that is in flight, or is to go on, comes from (`comes`)
 * or goes to rank `peer` from now on; or there is none. */
void wait_begin_message(int peer, bool comes);
void wait_end_message(void);

/* Any thread: another file operation has begun (1) or ended (-1). */
void wait_file(int change);
