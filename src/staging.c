#include "staging.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#include "trace.h"

static uint64_t transfer_bytes(const struct staging *ring, const struct transfer *transfer)
{
    return (uint64_t)(transfer->block.rows * transfer->block.cols) * ring->plan.element_bytes;
}

/* End all waiting.  Called with the lock held. */
static void stop(struct staging *ring)
{
    ring->stop = true;
    for (int i = 0; i < ring->opened; i++)
        pthread_cond_broadcast(&ring->slots[i].changed);
}

static void fail(struct staging *ring, const struct error *err)
{
    if (!ring->error.code)
        ring->error = *err;
    stop(ring);
}

/* Page-lock a slot, so that the device copies from and to it on its own.  Lock as below. */
static int pin(struct staging *ring, struct slot *slot, struct error *err)
{
    struct device *dev = ring->plan.device;
    if (slot->pinned)
        return 0;
    pthread_mutex_unlock(&ring->lock);
    int code = dev->pin(dev, slot->memory, ring->plan.slot_bytes, err);
    pthread_mutex_lock(&ring->lock);
    slot->pinned = code == 0;
    pthread_cond_broadcast(&slot->changed);
    return code;
}

/* Wait for the device's copy of a slot that is in flight.  Called with the lock held, which it
 * lets go meanwhile; nobody else touches the slot in this state. */
static int finish_copy(struct staging *ring, struct slot *slot, struct error *err)
{
    struct device *dev = ring->plan.device;
    pthread_mutex_unlock(&ring->lock);
    int code = dev->sync(dev, slot->done, err);
    double seconds = dev->elapsed(dev, slot->start, slot->done);
    uint64_t bytes = transfer_bytes(ring, &slot->transfer);
    struct span span = {.stage = ring->plan.direction == STAGING_IN ? STAGE_IN : STAGE_OUT,
                        .operand = (uint8_t)slot->transfer.operand,
                        .amount = bytes};
    trace_device(ring->plan.trace, span, slot->start, slot->done);
    pthread_mutex_lock(&ring->lock);
    if (!code)
        meter_add(&ring->link, seconds, bytes);
    return code;
}

/* Move the bytes of a slot from or to disk or cache.  Lock as above. */
static int move(struct staging *ring, struct slot *slot, int thread, struct error *err)
{
    const struct transfer *transfer = &slot->transfer;
    enum stage stage = ring->plan.direction == STAGING_OUT ? STAGE_WRITE
                       : transfer->again                   ? STAGE_CACHE
                                                           : STAGE_READ;
    struct meter *meter = transfer->again ? &ring->cache : &ring->disk;
    struct span span = {.stage = (uint8_t)stage,
                        .operand = (uint8_t)transfer->operand,
                        .thread = (uint16_t)thread,
                        .amount = transfer_bytes(ring, transfer)};
    slot->state = SLOT_MOVING;
    double begin = meter_begin(meter);
    pthread_mutex_unlock(&ring->lock);
    int code = ring->plan.move(ring->plan.context, transfer, slot->memory, err);
    pthread_mutex_lock(&ring->lock);
    double end = meter_end(meter, code ? 0 : span.amount);
    trace_host(ring->plan.trace, span, begin, end);
    return code;
}

/* One read: the next transfer of the schedule into the slot whose turn it is.  False at the end. */
static bool read_next(struct staging *ring, int thread, struct error *err)
{
    struct transfer transfer;
    if (ring->stop || !cursor_next(&ring->plan.schedule, &transfer))
        return false;
    int64_t number = ring->claimed++;
    struct slot *slot = &ring->slots[number % ring->plan.slots];
    while (!ring->stop && slot->turn != number)
        pthread_cond_wait(&slot->changed, &ring->lock);
    if (ring->stop)
        return false;
    if (slot->state == SLOT_IN_FLIGHT && finish_copy(ring, slot, err))
        return false;
    slot->transfer = transfer;
    if (move(ring, slot, thread, err) || pin(ring, slot, err))
        return false;
    slot->state = SLOT_FULL;
    pthread_cond_broadcast(&slot->changed);
    return true;
}

/* One write: the next slot that the main thread gave.  False at the end. */
static bool write_next(struct staging *ring, int thread, struct error *err)
{
    int64_t number = ring->claimed++;
    struct slot *slot = &ring->slots[number % ring->plan.slots];
    while (!ring->stop && number >= ring->submitted)
        pthread_cond_wait(&slot->changed, &ring->lock);
    if (number >= ring->submitted || ring->error.code)
        return false;
    if (finish_copy(ring, slot, err) || move(ring, slot, thread, err))
        return false;
    slot->state = SLOT_FREE;
    slot->turn += ring->plan.slots;
    pthread_cond_broadcast(&slot->changed);
    return true;
}

static void *work(void *argument)
{
    struct staging *ring = argument;
    struct error err = {0};
    pthread_mutex_lock(&ring->lock);
    int thread = ring->working++;
    bool reads = ring->plan.direction == STAGING_IN, more = true;
    for (int i = 0; !reads && thread == 0 && i < ring->plan.slots && !ring->stop && more; i++)
        more = pin(ring, &ring->slots[i], &err) == 0;
    while (more)
        more = reads ? read_next(ring, thread, &err) : write_next(ring, thread, &err);
    if (err.code)
        fail(ring, &err);
    pthread_mutex_unlock(&ring->lock);
    return NULL;
}

static int open_slot(struct staging *ring, struct error *err)
{
    struct device *dev = ring->plan.device;
    int i = ring->opened++;
    struct slot *slot = &ring->slots[i];
    slot->memory = ring->memory + (size_t)i * ring->plan.slot_bytes;
    slot->turn = i;
    pthread_cond_init(&slot->changed, NULL);
    if (dev->event_create(dev, &slot->start, err) || dev->event_create(dev, &slot->done, err))
        return err->code;
    return 0;
}

static void close_slot(struct staging *ring, struct slot *slot)
{
    struct device *dev = ring->plan.device;
    if (slot->start)
        dev->event_destroy(dev, slot->start);
    if (slot->done)
        dev->event_destroy(dev, slot->done);
    if (slot->pinned)
        dev->unpin(dev, slot->memory);
    pthread_cond_destroy(&slot->changed);
}

static int open_slots(struct staging *ring, struct error *err)
{
    size_t bytes = ring->plan.slot_bytes * (size_t)ring->plan.slots;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_add(err, EXIT_RESOURCES,
                         "cannot allocate %zu bytes of host memory for staging", bytes);
    madvise(memory, bytes, MADV_HUGEPAGE);
    ring->memory = memory;
    while (ring->opened < ring->plan.slots)
        if (open_slot(ring, err))
            return err->code;
    return 0;
}

int staging_open(struct staging *ring, const struct staging_plan *plan, struct error *err)
{
    *ring = (struct staging){.plan = *plan};
    pthread_mutex_init(&ring->lock, NULL);
    ring->slots = calloc((size_t)plan->slots, sizeof *ring->slots);
    ring->threads = calloc((size_t)plan->threads, sizeof *ring->threads);
    if (!ring->slots || !ring->threads)
        return error_add(err, EXIT_RESOURCES, "out of host memory");
    if (open_slots(ring, err))
        return err->code;
    while (ring->started < plan->threads) {
        if (pthread_create(&ring->threads[ring->started], NULL, work, ring))
            return error_add(err, EXIT_RESOURCES, "cannot start %d I/O threads", plan->threads);
        ring->started++;
    }
    return 0;
}

int staging_take(struct staging *ring, struct slot **taken, struct error *err)
{
    enum slot_state wanted = ring->plan.direction == STAGING_IN ? SLOT_FULL : SLOT_FREE;
    pthread_mutex_lock(&ring->lock);
    int64_t number = ring->used++;
    struct slot *slot = &ring->slots[number % ring->plan.slots];
    while (!ring->error.code && (!slot->pinned || slot->turn != number || slot->state != wanted))
        pthread_cond_wait(&slot->changed, &ring->lock);
    if (ring->error.code)
        *err = ring->error;
    pthread_mutex_unlock(&ring->lock);
    *taken = slot;
    return err->code;
}

void staging_give(struct staging *ring, struct slot *slot)
{
    pthread_mutex_lock(&ring->lock);
    slot->state = SLOT_IN_FLIGHT;
    if (ring->plan.direction == STAGING_IN)
        slot->turn += ring->plan.slots;
    else
        ring->submitted++;
    pthread_cond_broadcast(&slot->changed);
    pthread_mutex_unlock(&ring->lock);
}

int staging_check(struct staging *ring, struct error *err)
{
    pthread_mutex_lock(&ring->lock);
    if (ring->error.code)
        *err = ring->error;
    pthread_mutex_unlock(&ring->lock);
    return err->code;
}

static void join(struct staging *ring)
{
    pthread_mutex_lock(&ring->lock);
    stop(ring);
    pthread_mutex_unlock(&ring->lock);
    while (ring->started > 0)
        pthread_join(ring->threads[--ring->started], NULL);
}

int staging_finish(struct staging *ring, struct error *err)
{
    /* Of an input ring the schedule is at its end; all that was given to an output ring is still
     * written. */
    join(ring);
    pthread_mutex_lock(&ring->lock);
    if (ring->error.code)
        *err = ring->error;
    for (int i = 0; i < ring->plan.slots && !err->code; i++)
        if (ring->slots[i].state == SLOT_IN_FLIGHT)
            finish_copy(ring, &ring->slots[i], err);
    pthread_mutex_unlock(&ring->lock);
    return err->code;
}

void staging_close(struct staging *ring)
{
    if (!ring->plan.device)
        return;
    struct error none = {.code = EXIT_RUNTIME};
    pthread_mutex_lock(&ring->lock);
    if (!ring->error.code)
        ring->error = none; /* what was not written by now is not wanted any more */
    pthread_mutex_unlock(&ring->lock);
    join(ring);
    for (int i = 0; i < ring->opened; i++)
        close_slot(ring, &ring->slots[i]);
    if (ring->memory)
        munmap(ring->memory, ring->plan.slot_bytes * (size_t)ring->plan.slots);
    free(ring->slots);
    free(ring->threads);
    pthread_mutex_destroy(&ring->lock);
    *ring = (struct staging){0};
}
