/* The outlet: slots between a rank's device and the output.
 *
 *   FREE -> (main enqueues a copy) IN_FLIGHT -> (a thread waits for it and writes) -> FREE ...
 *
 * What was freed last is taken first, so that a run whose writers keep up uses few slots.  Threads
 * that have nothing to write prepare what will be written to, some at a time. */
#ifndef DGEMM_OOC_OUTLET_H
#define DGEMM_OOC_OUTLET_H

#include "slot.h"

struct outlet {
    struct mover mover;
    char *memory; /* all slots */
    struct slot *slots;
    int count, opened;
    pthread_t *threads;
    int started, working, populated; /* threads; those that have begun; that have got memory */
    pthread_mutex_t lock;
    struct slot **free; /* a stack: pinned, and nobody's */
    int frees;
    pthread_cond_t freed;
    struct slot **given; /* a ring of `count`: in the order in which they were given */
    int64_t submitted;   /* by the main thread */
    int64_t claimed;     /* by the threads */
    int64_t written;     /* and through with them */
    pthread_cond_t more; /* given, or there is something else to do, or no more will be given */
    bool stop;           /* no more will come, or something failed */
    int preparing;       /* idle threads that prepare what is written to */
    bool prepared;       /* all of it */
    struct error error;
};

/* Allocate `count` slots and start the threads.  After a failure outlet_close is still due. */
int outlet_open(struct outlet *outlet, const struct mover *mover, int count, struct error *err);

/* Pin the slots, once the threads have got their memory: before the first outlet_take, and while
 * the device is not at work, for which the CUDA runtime would wait. */
int outlet_begin(struct outlet *outlet, struct error *err);

/* Whether there is a slot to take, or a complaint. */
bool outlet_ready(struct outlet *outlet);

/* The next slot, free.  Waits. */
int outlet_take(struct outlet *outlet, struct slot **slot, struct error *err);

/* Give a slot back that was taken for something else than C. */
void outlet_return(struct outlet *outlet, struct slot *slot);

/* A copy to the slot has been enqueued between its events `start` and `done`; it is written as
 * `slot->transfer` says. */
void outlet_give(struct outlet *outlet, struct slot *slot);

/* The complaint of a thread that has failed, without waiting for any; 0 when none has. */
int outlet_check(struct outlet *outlet, struct error *err);

/* Wait until all that was given has been written; more may follow. */
int outlet_drain(struct outlet *outlet, struct error *err);

/* Wait until all that was given has been written, and end the threads. */
int outlet_finish(struct outlet *outlet, struct error *err);

/* Stop the threads wherever they are and free everything.  The device must not be at work on
 * slots. */
void outlet_close(struct outlet *outlet);

#endif
