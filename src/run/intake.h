/* The intake: a ring of staging slots between files and the devices of a node.
 *
 * The ring lies in the node's shared window: every rank can copy what any rank has read, so that
 * each byte comes to a node once.  All ranks walk the node's sequence of transfers (schedule.h),
 * each with its own cursor.  Slot i serves the transfers i, i + count, i + 2 count ... of that
 * sequence; its `turn` is the number of the one that it serves now.
 *
 *   FREE -> (a thread of any rank reads, or the exchange receives) -> FULL
 *        -> (each rank that needs it copies it to its device; `copies` are outstanding) -> FREE ...
 *
 * One thread of each rank, the lander, waits for the copies of its rank and releases the slots.
 * Every rank pins all slots.  Threads that have nothing left to read prepare the pages of the file
 * that will be written to. */
#pragma once

#include "slot.h"

struct comm;
struct intake_ring; /* in the window */
struct device_matrix;

struct intake {
    struct mover mover;
    const struct comm *comm;
    int count; /* slots of the node */
    struct intake_ring *ring;
    struct slot *slots;            /* this rank's side */
    struct cursor reading, taking; /* the threads' and the main thread's place in the sequence */
    struct transfer next;          /* the one that this rank takes next, if `has_next` */
    bool has_next;
    pthread_t *threads, lander;
    int started;
    bool lands; /* the lander was started */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* of ready, begun, given or closing */
    struct slot **flight;   /* slots whose copies are in flight, in order */
    int64_t given, landed;
    struct event *ahead; /* the end of the newest copy; null: the next one does not follow it */
    int working;         /* reading threads that run */
    int ready;           /* threads that have what they need for that, the lander too */
    bool begun;          /* they may read */
    bool closing;        /* no more copies will be given */
    struct error error;
};

/* The bytes of the window for the slots of a node and their states.  Pure. */
size_t intake_bytes(const struct plan *plan, const struct comm *comm);

/* Initialise the ring in the window: the first rank of a node, before any rank opens it. */
void intake_init(void *window, const struct plan *plan, const struct comm *comm);

/* Start the threads, which populate the slots' memory.  Window, the mover's problem, plan and comm
 * stay the caller's.  After a failure intake_close is still due. */
int intake_open(struct intake *intake, void *window, const struct mover *mover,
                const struct plan *plan, const struct comm *comm, struct error *err);

/* Pin the slots, once all threads are ready, and let the threads read.  Blocks. */
int intake_begin(struct intake *intake, struct error *err);

/* What the next slot that this rank needs holds, or will hold; null at the end.  Does not block. */
const struct transfer *intake_next(struct intake *intake);

/* Whether it is full by now. */
bool intake_comes(struct intake *intake);

/* Take the next slot that this rank needs and enqueue the copies of what it holds to its place in
 * the matrix and in the other one, which may be null, on STREAM_IN.  Blocks until the slot is full;
 * fails without a complaint (ERROR_ELSEWHERE) when another rank has stopped the ring. */
int intake_copy(struct intake *intake, const struct device_matrix *to,
                const struct device_matrix *other, struct error *err);

/* The next copy does not begin where the last one ends: STREAM_IN waits for something before it. */
void intake_interrupt(struct intake *intake);

/* The complaint of a thread that has failed, or 0.  Does not block. */
int intake_check(struct intake *intake, struct error *err);

/* Wait until all copies are done and the node's sequence has been read to its end. */
int intake_finish(struct intake *intake, struct error *err);

/* End all waiting for the ring on this node; and whether it was ended. */
void intake_stop(struct intake *intake);
bool intake_stopped(struct intake *intake);

/* For the exchange between nodes, by the number of a transfer in the sequence.  intake_ready: its
 * slot serves it now, and is full or empty as asked.  intake_memory: the slot's memory.
 * intake_set_full: the slot is full, and so many copies are outstanding.  intake_set_copied: one of
 * these has been made. */
bool intake_ready(struct intake *intake, int64_t number, bool full);
void *intake_memory(const struct intake *intake, int64_t number);
void intake_set_full(struct intake *intake, int64_t number, int copies);
void intake_set_copied(struct intake *intake, int64_t number);

/* Join the threads and free everything.  No copy may be in flight. */
void intake_close(struct intake *intake);
