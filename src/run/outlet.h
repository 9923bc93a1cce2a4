/* The outlet: staging slots between a rank's device and the output.
 *
 *   FREE -> (the main thread enqueues a copy) -> IN FLIGHT -> (a thread writes it) -> FREE
 *
 * The slot that was freed last is taken first, so that a run whose writers keep up uses few slots.
 * Threads that have nothing to write prepare the pages of the file that will be written to. */
#pragma once

#include "slot.h"

struct device_matrix;

struct outlet {
    struct mover mover;
    char *memory; /* all slots */
    struct slot *slots;
    int count, opened;
    pthread_t *threads;
    int started, working, populated; /* threads: created, running, with their memory populated */
    pthread_mutex_t lock;
    struct slot **free; /* a stack of pinned slots that nobody uses */
    int frees;
    pthread_cond_t freed;
    struct slot **given; /* a ring of `count` slots, in the order in which they were given */
    int64_t submitted;   /* by the main thread */
    int64_t claimed;     /* by the threads */
    int64_t written;     /* and written */
    double left;         /* bytes of those that were given and are not written */
    pthread_cond_t more; /* a slot was given, there is something to prepare, or `stop` is set */
    bool stop;           /* no more slots will be given, or something failed */
    int preparing;       /* threads that prepare the file now */
    bool prepared;       /* all of the file is */
    struct error error;
};

/* Allocate `count` slots and start the threads.  Of the mover `move` is not used: each slot has its
 * sink.  After a failure outlet_close is still due. */
int outlet_open(struct outlet *outlet, const struct mover *mover, int count, struct error *err);

/* Pin the slots, once the threads have populated them.  Blocks.  Due before the first outlet_take,
 * and while the device is idle: the CUDA runtime would wait for its work. */
int outlet_begin(struct outlet *outlet, struct error *err);

/* Whether outlet_take would return at once, with a slot or a complaint. */
bool outlet_ready(struct outlet *outlet);

/* Whether so few copies are in flight that one more is enqueued at once.  A GPU's queue is long,
 * but where it is full, the caller waits. */
bool outlet_flows(struct outlet *outlet);

/* A free slot.  Blocks. */
int outlet_take(struct outlet *outlet, struct slot **slot, struct error *err);

/* Give back a slot that was taken for something else than C, without writing it. */
void outlet_return(struct outlet *outlet, struct slot *slot);

/* Take a slot, enqueue the copy of a part of the matrix to it, on STREAM_OUT, and give it on to be
 * written to a sink, which stays in place.  Blocks until a slot is free. */
int outlet_copy(struct outlet *outlet, const struct device_matrix *from, const struct block *part,
                const struct sink *to, struct error *err);

/* The complaint of a thread that has failed, or 0.  Does not block. */
int outlet_check(struct outlet *outlet, struct error *err);

/* Wait until all that was given has been written; more may follow. */
int outlet_drain(struct outlet *outlet, struct error *err);

/* Wait until all that was given has been written, and end the threads. */
int outlet_finish(struct outlet *outlet, struct error *err);

/* Stop the threads wherever they are and free everything.  No copy may be in flight. */
void outlet_close(struct outlet *outlet);
