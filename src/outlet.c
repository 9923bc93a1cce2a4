#include "outlet.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

static const double pauses = 3, pause_max = 0.02; /* times the last pinning; seconds */

/* End all waiting.  Called with the lock held. */
static void stop(struct outlet *o)
{
    o->stop = true;
    for (int i = 0; i < o->opened; i++)
        pthread_cond_broadcast(&o->slots[i].changed);
}

static void fail(struct outlet *o, const struct error *err)
{
    pthread_mutex_lock(&o->lock);
    if (!o->error.code)
        o->error = *err;
    stop(o);
    pthread_mutex_unlock(&o->lock);
}

/* Pause for so long where nobody waits.  False when the ring was stopped. */
static bool pause_for(struct outlet *o, double seconds)
{
    struct timespec pause = {.tv_nsec = (long)(1e9 * fmin(seconds, pause_max))};
    pthread_mutex_lock(&o->lock);
    bool hurry = o->hurry, stopped = o->stop;
    pthread_mutex_unlock(&o->lock);
    if (!hurry && !stopped)
        nanosleep(&pause, NULL);
    return !stopped;
}

static int pin_slots(struct outlet *o, struct error *err)
{
    struct device *device = o->mover.device;
    double took = 0;
    for (int i = 0; i < o->count && pause_for(o, pauses * took); i++) {
        struct outlet_slot *slot = &o->slots[i];
        double begin = clock_now();
        if (device->pin(device, slot->slot.memory, o->mover.slot_bytes, err))
            return err->code;
        took = clock_now() - begin;
        pthread_mutex_lock(&o->lock);
        slot->slot.pinned = true;
        pthread_cond_broadcast(&slot->changed);
        pthread_mutex_unlock(&o->lock);
    }
    return 0;
}

/* The next slot that the main thread gave; null at the end. */
static struct outlet_slot *claim(struct outlet *o)
{
    pthread_mutex_lock(&o->lock);
    int64_t number = o->claimed++;
    struct outlet_slot *slot = &o->slots[number % o->count];
    while (!o->stop && number >= o->submitted)
        pthread_cond_wait(&slot->changed, &o->lock);
    bool none = number >= o->submitted || o->error.code;
    pthread_mutex_unlock(&o->lock);
    return none ? NULL : slot;
}

static void set_free(struct outlet *o, struct outlet_slot *slot)
{
    pthread_mutex_lock(&o->lock);
    slot->free = true;
    slot->turn += o->count;
    pthread_cond_broadcast(&slot->changed);
    pthread_mutex_unlock(&o->lock);
}

static void *work(void *argument)
{
    struct outlet *o = argument;
    struct outlet_slot *slot;
    struct error err = {0};
    pthread_mutex_lock(&o->lock);
    int thread = o->working++;
    pthread_mutex_unlock(&o->lock);
    if (thread == 0)
        pin_slots(o, &err);
    while (!err.code && (slot = claim(o)))
        if (mover_land(&o->mover, &slot->slot, &err) == 0 &&
            mover_move(&o->mover, &slot->slot, thread, &err) == 0)
            set_free(o, slot);
    if (err.code)
        fail(o, &err);
    return NULL;
}

static int open_slots(struct outlet *o, struct error *err)
{
    size_t bytes = o->mover.slot_bytes * (size_t)o->count;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_add(err, EXIT_RESOURCES,
                         "cannot allocate %zu bytes of host memory for staging", bytes);
    madvise(memory, bytes, MADV_HUGEPAGE);
    o->memory = memory;
    while (o->opened < o->count) {
        int i = o->opened++;
        struct outlet_slot *slot = &o->slots[i];
        *slot = (struct outlet_slot){.free = true, .turn = i};
        pthread_cond_init(&slot->changed, NULL);
        if (slot_open(&slot->slot, o->mover.device, o->memory + (size_t)i * o->mover.slot_bytes,
                      err))
            return err->code;
    }
    return 0;
}

int outlet_open(struct outlet *o, const struct mover *mover, int count, struct error *err)
{
    *o = (struct outlet){.mover = *mover, .count = count};
    pthread_mutex_init(&o->lock, NULL);
    pthread_mutex_init(&o->mover.lock, NULL);
    o->slots = calloc((size_t)count, sizeof *o->slots);
    o->threads = calloc((size_t)mover->threads, sizeof *o->threads);
    if (!o->slots || !o->threads)
        return error_add(err, EXIT_RESOURCES, "out of host memory");
    if (open_slots(o, err))
        return err->code;
    while (o->started < mover->threads) {
        if (pthread_create(&o->threads[o->started], NULL, work, o))
            return error_add(err, EXIT_RESOURCES, "cannot start %d I/O threads", mover->threads);
        o->started++;
    }
    return 0;
}

int outlet_take(struct outlet *o, struct slot **taken, struct error *err)
{
    pthread_mutex_lock(&o->lock);
    int64_t number = o->taken++;
    struct outlet_slot *slot = &o->slots[number % o->count];
    while (!o->error.code && (!slot->slot.pinned || slot->turn != number || !slot->free)) {
        o->hurry |= !slot->slot.pinned;
        pthread_cond_wait(&slot->changed, &o->lock);
    }
    o->hurry = false;
    if (o->error.code)
        *err = o->error;
    slot->free = false;
    pthread_mutex_unlock(&o->lock);
    *taken = &slot->slot;
    return err->code;
}

void outlet_give(struct outlet *o, struct slot *slot)
{
    struct outlet_slot *given = (struct outlet_slot *)slot;
    pthread_mutex_lock(&o->lock);
    o->submitted++;
    pthread_cond_broadcast(&given->changed);
    pthread_mutex_unlock(&o->lock);
}

int outlet_check(struct outlet *o, struct error *err)
{
    pthread_mutex_lock(&o->lock);
    if (o->error.code)
        *err = o->error;
    pthread_mutex_unlock(&o->lock);
    return err->code;
}

static void join(struct outlet *o)
{
    pthread_mutex_lock(&o->lock);
    stop(o);
    pthread_mutex_unlock(&o->lock);
    while (o->started > 0)
        pthread_join(o->threads[--o->started], NULL);
}

int outlet_finish(struct outlet *o, struct error *err)
{
    join(o); /* all that was given is still written */
    return outlet_check(o, err);
}

void outlet_close(struct outlet *o)
{
    struct device *device = o->mover.device;
    if (!device)
        return;
    fail(o, &(struct error){.code = EXIT_RUNTIME}); /* what is not written now is not wanted */
    join(o);
    for (int i = 0; i < o->opened; i++) {
        slot_close(&o->slots[i].slot, device);
        pthread_cond_destroy(&o->slots[i].changed);
    }
    if (o->memory)
        munmap(o->memory, o->mover.slot_bytes * (size_t)o->count);
    free(o->slots);
    free(o->threads);
    pthread_mutex_destroy(&o->lock);
    pthread_mutex_destroy(&o->mover.lock);
    *o = (struct outlet){0};
}
