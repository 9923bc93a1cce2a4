/* Staging slots: host memory between files and the device.  Threads move bytes between slots and
 * files, the main thread enqueues copies between slots and the device.  The rings that slots come
 * in are intake.h and outlet.h; here is what they have in common. */
#ifndef DGEMM_OOC_SLOT_H
#define DGEMM_OOC_SLOT_H

#include <pthread.h>

#include "error.h"
#include "meter.h"
#include "schedule.h"
#include "trace.h"

struct device;
struct event;

/* A rank's side of a slot. */
struct slot {
    void *memory;
    struct event *start, *done; /* of the device's copy */
    bool pinned;                /* with all behind it: the first one is */
    struct transfer transfer;
};

int slot_open(struct slot *slot, struct device *device, void *memory, struct error *err);
void slot_close(struct slot *slot, struct device *device);

/* Who moves bytes, and the account of it. */
struct mover {
    struct device *device;
    struct trace *trace;
    size_t slot_bytes, element_bytes;
    int threads;   /* that call `move` at once */
    int preparers; /* of them, that call `prepare` at once */
    int (*move)(void *context, const struct transfer *transfer, void *memory, struct error *err);
    bool (*prepare)(void *context); /* some more of what is written to; false: there is no more */
    void *context;
    enum stage file_stage, link_stage; /* what it counts as */
    pthread_mutex_t lock;              /* of the meters */
    struct meter file, cache;          /* what the threads moved: files; what the host keeps */
    struct meter link;                 /* what the device copied */
};

/* Ask for a slot's memory, where the kernel knows such a request (since Linux 5.14): many threads
 * get it faster than the one that pins. */
void slot_populate(const struct mover *mover, const struct slot *slot);

/* Page-lock `count` slots that lie behind each other, so that the device copies on its own. */
int slot_pin(const struct mover *mover, struct slot *first, int count, struct error *err);

/* One of its meters, as it is now. */
struct meter mover_meter(const struct mover *mover, const struct meter *meter);

double mover_bytes(const struct mover *mover, const struct transfer *transfer);

/* Move a slot's bytes from or to files or cache; `thread`: of which thread the timeline says so. */
int mover_move(struct mover *mover, const struct slot *slot, int thread, struct error *err);

/* Wait until the device's copy of a slot is done. */
int mover_land(struct mover *mover, const struct slot *slot, struct error *err);

#endif
