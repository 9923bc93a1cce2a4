/* Staging slots: host memory between files and the device.  Threads move bytes between slots and
 * files; the main thread enqueues copies between slots and the device.  This is what the two rings
 * of slots, intake.h and outlet.h, have in common. */
#pragma once

#include <pthread.h>

#include "error.h"
#include "meter.h"
#include "schedule.h"
#include "trace.h"

struct comm;
struct device;
struct event;

/* Where blocks go that leave the device: C, or sums that are saved. */
struct sink {
    int (*write)(void *context, const struct block *block, void *memory, struct error *err);
    void *context;
    size_t element; /* bytes that one has there */
};

/* A rank's side of a slot. */
struct slot {
    void *memory;
    struct event *start, *done; /* of the device's copy */
    struct event *earlier; /* of a slot in: `done` of its copy before, from which another slot's
                                 * is measured, if that one followed; created by the intake */
    struct event *from;    /* where the copy begins: `start`, or the end of the one ahead */
    int64_t number;        /* of a slot out: of those that were given to be written, */
    const struct sink *to; /* there */
    bool pinned;           /* of the first slot of a ring, which is pinned with all others */
    struct transfer transfer;
    int64_t copied; /* elements, by the device */
};

/* Create the events of a slot, whose memory stays the caller's.  After a failure slot_close is
 * still due; it also unpins the memory. */
int slot_open(struct slot *slot, struct device *device, void *memory, struct error *err);
void slot_close(struct slot *slot, struct device *device);

/* What moves the bytes of a ring, and how many it has moved. */
struct mover {
    const struct comm *comm; /* which hears of a failure */
    struct device *device;
    struct trace *trace;
    const struct problem *problem; /* of whose elements the slots are */
    size_t slot_bytes;
    int threads;   /* that call `move` at the same time */
    int preparers; /* of those that write, how many may call `prepare` at the same time */
    int (*move)(void *context, const struct slot *slot, struct error *err);
    bool (*prepare)(void *context); /* the next rows of the file; false: there are no more */
    void *context;
    enum stage file_stage, link_stage; /* the stages of the pipeline that these bytes count for */
    pthread_mutex_t lock;              /* of the meters */
    struct meter file, cache;          /* bytes that the threads moved: of files, of the cache */
    struct meter link;                 /* bytes that the device copied */
};

/* Populate a slot's memory, where the kernel can (since Linux 5.14): many threads do that faster
 * than the one that pins.  Any thread. */
void slot_populate(const struct mover *mover, const struct slot *slot);

/* Page-lock `count` slots that are adjacent in memory, so that the device copies asynchronously. */
int slot_pin(const struct mover *mover, struct slot *first, int count, struct error *err);

/* One of the mover's meters, as it is now.  Any thread. */
struct meter mover_meter(const struct mover *mover, const struct meter *meter);

/* Bytes that a transfer takes in a slot, as the mover's elements.  Pure. */
double mover_bytes(const struct mover *mover, const struct transfer *transfer);

/* Move a slot's bytes from or to its file or the cache.  Blocks.  `thread` is the number that the
 * trace gives to the calling thread. */
int mover_move(struct mover *mover, const struct slot *slot, int thread, struct error *err);

/* Wait until the device's copy of a slot is done, and account for it.  Blocks. */
int mover_land(struct mover *mover, const struct slot *slot, struct error *err);
