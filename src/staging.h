/* Staging: a ring of pinned slots between the disk and the device.
 *
 * Threads move bytes between slots and files, the main thread enqueues copies between slots and
 * the device, both in the order of the schedule.  A slot's state says whose turn it is, and a
 * stage waits for a state, never for time:
 *
 *   input    FREE -> (thread reads) MOVING -> FULL -> (main enqueues a copy) IN_FLIGHT -> FREE ...
 *   output   FREE -> (main enqueues a copy) IN_FLIGHT -> (thread writes) MOVING -> FREE ...
 *
 * Slot i serves numbers i, i + count, i + 2 count ...; `turn` is the number that it serves now.
 *
 * A slot is pinned once, before the device first copies it: an input slot by the thread that has
 * read into it, output slots one after the other by the first thread, so that the first copies need
 * not wait until all are. */
#ifndef DGEMM_OOC_STAGING_H
#define DGEMM_OOC_STAGING_H

#include <pthread.h>

#include "error.h"
#include "meter.h"
#include "schedule.h"

struct device;
struct event;
struct trace;

enum slot_state { SLOT_FREE, SLOT_MOVING, SLOT_FULL, SLOT_IN_FLIGHT };

struct slot {
    void *memory;
    struct event *start, *done; /* of the device copy */
    enum slot_state state;
    int64_t turn;
    bool pinned;
    pthread_cond_t changed; /* state, turn or pinned, or what lets its waiters stop */
    struct transfer transfer;
};

enum staging_direction { STAGING_IN, STAGING_OUT };

/* What the ring is made of and who moves its bytes. */
struct staging_plan {
    enum staging_direction direction;
    int slots, threads;
    size_t slot_bytes, element_bytes;
    struct device *device;
    struct trace *trace;
    struct cursor schedule; /* of an input ring: what to read, in order */
    int (*move)(void *context, const struct transfer *transfer, void *memory, struct error *err);
    void *context; /* for `move`, which is called from several threads at once */
};

struct staging {
    struct staging_plan plan;
    char *memory; /* all slots */
    struct slot *slots;
    pthread_t *threads;
    int opened;           /* slots */
    int started, working; /* threads; those that have begun */
    pthread_mutex_t lock;
    int64_t claimed;   /* numbers taken by the threads */
    int64_t used;      /* numbers taken by the main thread */
    int64_t submitted; /* output: numbers given to the threads */
    bool stop;         /* no more output will come, or something failed */
    struct error error;
    struct meter disk, cache; /* what the threads moved: files; what the host keeps */
    struct meter link;        /* what the device copied */
};

/* Allocate the slots and start the threads.  After a failure staging_close is still due. */
int staging_open(struct staging *ring, const struct staging_plan *plan, struct error *err);

/* Next slot: of an input ring the next one filled, of an output ring the next one free.  Waits. */
int staging_take(struct staging *ring, struct slot **slot, struct error *err);

/* The copy from or to the slot has been enqueued between its events `start` and `done`.  An
 * input slot is read anew, an output slot written as `slot->transfer` says, once that copy is
 * done. */
void staging_give(struct staging *ring, struct slot *slot);

/* The complaint of a thread that has failed, without waiting for any; 0 when none has. */
int staging_check(struct staging *ring, struct error *err);

/* Wait until all that was given has been copied and, for output, written. */
int staging_finish(struct staging *ring, struct error *err);

/* Stop the threads wherever they are and free everything.  The device must not be at work on
 * slots. */
void staging_close(struct staging *ring);

#endif
