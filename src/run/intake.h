/* The intake: a ring of slots between files and the devices of a node.
 *
 * The ring lies in the node's window: what any rank reads every rank can copy, so that each byte
 * comes to a node once.  All walk the node's sequence of transfers (schedule.h), each with its own
 * cursor; slot i serves numbers i, i + count, i + 2 count ... of it, and `turn` is the number that
 * it serves now.
 *
 *   FREE -> (a thread of any rank reads, or the network brings it) -> FULL
 *        -> (each rank that needs it enqueues a copy; `copies` of them are due) -> FREE ...
 *
 * A thread of each rank, the courier, waits for the rank's copies and says when they are done.
 * Every rank pins all slots. */
#ifndef DGEMM_OOC_INTAKE_H
#define DGEMM_OOC_INTAKE_H

#include "slot.h"

struct comm;
struct intake_ring; /* in the window */

struct intake {
    struct mover mover;
    const struct comm *comm;
    int rank, node, node_rank, node_size;
    int count; /* slots of the node */
    struct intake_ring *ring;
    struct slot *slots;            /* this rank's side */
    struct cursor reading, taking; /* the threads' and the main thread's place in the sequence */
    struct transfer next;          /* the one that this rank takes next */
    bool has_next;
    pthread_t *threads, courier;
    int started;
    bool couriered; /* there is a courier */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* ready, begun, given or closing */
    struct slot **flight;   /* copies that are enqueued, in order */
    int64_t given, landed;
    int working, ready; /* reading threads that have started, and that could read */
    bool begun;         /* they may */
    bool closing;       /* no more copies will be given */
    struct error error;
};

/* Slots of a node; bytes of the window for them and for what is said about them. */
int intake_slots(const struct plan *plan, const struct comm *comm);
size_t intake_bytes(const struct plan *plan, const struct comm *comm);

/* For the first rank of a node, before any opens. */
void intake_init(void *window, const struct plan *plan, const struct comm *comm);

/* Start the threads, which get the slots' memory.  After a failure intake_close is still due. */
int intake_open(struct intake *intake, void *window, const struct mover *mover,
                const struct problem *p, const struct plan *plan, const struct comm *comm,
                struct error *err);

/* Pin the slots, once all threads are ready, and let these read. */
int intake_begin(struct intake *intake, struct error *err);

/* The next slot that this rank needs, full.  Waits.  Fails without a complaint (ERROR_ELSEWHERE)
 * when another rank has stopped the ring. */
int intake_take(struct intake *intake, struct slot **slot, struct error *err);

/* What it holds, if it is full by now; null when it is not. */
const struct transfer *intake_peek(struct intake *intake);

/* A copy from the slot has been enqueued between its events `start` and `done`. */
void intake_give(struct intake *intake, struct slot *slot);

/* The complaint of a thread that has failed, without waiting for any; 0 when none has. */
int intake_check(struct intake *intake, struct error *err);

/* Wait until all that was given has been copied and the node's sequence is at its end. */
int intake_finish(struct intake *intake, struct error *err);

/* Let nobody on this node wait any longer; whether that was said. */
void intake_stop(struct intake *intake);
bool intake_stopped(struct intake *intake);

/* For the exchange between nodes.  Whether the slot of that number of the sequence is there, empty
 * or full; where; that it is full, and how many copies are due; that one of them has been made. */
bool intake_ready(struct intake *intake, int64_t number, bool full);
void *intake_memory(const struct intake *intake, int64_t number);
void intake_set_full(struct intake *intake, int64_t number, int copies);
void intake_set_copied(struct intake *intake, int64_t number);

/* Join the threads and free everything.  The device must not be at work on slots. */
void intake_close(struct intake *intake);

#endif
