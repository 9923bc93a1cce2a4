/* What this process waits for, visible to the other ranks of its node (stalls.h). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct transfer;

enum wait { WAIT_FOR_PANEL, WAIT_FOR_SLOT, WAIT_FOR_DEVICE, WAIT_FOR_RANKS, WAIT_FOR_RANK };
enum { WAIT_FOR_NOTHING = -1 }; /* beside them, and a peer that is none */

/* Times as clock_now's, in milliseconds. */
struct waits {
    pid_t process;
    _Atomic int what, operand, from;
    _Atomic int64_t slab, since;
    _Atomic int peer; /* of the oldest message, if there is one */
    atomic_bool comes;
    _Atomic int64_t oldest; /* since when it is that */
    _Atomic int files;      /* operations at work */
    _Atomic int64_t moved;  /* when the last of them began or ended */
    _Atomic int64_t beat;   /* when its rank looked last */
};

/* From now on keep the waits in this record, which is reset; null: in one that nobody reads. */
void waits_note(struct waits *record);

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
