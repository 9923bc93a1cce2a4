/* The outlet: a ring of slots between a rank's device and the output.
 *
 *   FREE -> (main enqueues a copy) IN_FLIGHT -> (a thread waits for it and writes) -> FREE ...
 *
 * Slot i serves numbers i, i + count, i + 2 count ...; `turn` is the number that it serves now.
 * Slots are pinned one after the other by the first thread, with pauses as long as nobody waits,
 * since the first panels come to the device meanwhile and pinning slows their copies. */
#ifndef DGEMM_OOC_OUTLET_H
#define DGEMM_OOC_OUTLET_H

#include "slot.h"

struct outlet_slot {
    struct slot slot; /* first, so that one is the other */
    bool free;
    int64_t turn;
    pthread_cond_t changed; /* free, turn or pinned, or what lets its waiters stop */
};

struct outlet {
    struct mover mover;
    char *memory; /* all slots */
    struct outlet_slot *slots;
    int count, opened;
    pthread_t *threads;
    int started, working; /* threads; those that have begun */
    pthread_mutex_t lock;
    int64_t claimed;   /* numbers taken by the threads */
    int64_t taken;     /* numbers taken by the main thread */
    int64_t submitted; /* numbers given to the threads */
    bool hurry;        /* the main thread waits for a slot to be pinned */
    bool stop;         /* no more will come, or something failed */
    struct error error;
};

/* Allocate `count` slots and start the threads.  After a failure outlet_close is still due. */
int outlet_open(struct outlet *outlet, const struct mover *mover, int count, struct error *err);

/* The next slot, free.  Waits. */
int outlet_take(struct outlet *outlet, struct slot **slot, struct error *err);

/* A copy to the slot has been enqueued between its events `start` and `done`; it is written as
 * `slot->transfer` says. */
void outlet_give(struct outlet *outlet, struct slot *slot);

/* The complaint of a thread that has failed, without waiting for any; 0 when none has. */
int outlet_check(struct outlet *outlet, struct error *err);

/* Wait until all that was given has been written. */
int outlet_finish(struct outlet *outlet, struct error *err);

/* Stop the threads wherever they are and free everything.  The device must not be at work on
 * slots. */
void outlet_close(struct outlet *outlet);

#endif
