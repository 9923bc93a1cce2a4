#include "slot.h"

#include "device.h"
#include "file.h"
#include "phase.h"
#include "waits.h"

int slot_open(struct slot *slot, struct device *device, void *memory, struct error *err)
{
    slot->memory = memory;
    if (device->event_create(device, &slot->start, err) ||
        device->event_create(device, &slot->done, err))
        return err->code;
    slot->from = slot->start;
    return 0;
}

void slot_close(struct slot *slot, struct device *device)
{
    if (slot->start)
        device->event_destroy(device, slot->start);
    if (slot->done)
        device->event_destroy(device, slot->done);
    if (slot->earlier)
        device->event_destroy(device, slot->earlier);
    if (slot->pinned)
        device->unpin(device, slot->memory);
    *slot = (struct slot){0};
}

void slot_populate(const struct mover *mover, const struct slot *slot)
{
    madvise(slot->memory, mover->slot_bytes, MADV_POPULATE_WRITE);
}

int slot_pin(const struct mover *mover, struct slot *first, int count, struct error *err)
{
    struct device *device = mover->device;
    size_t bytes = (size_t)count * mover->slot_bytes;
    if (device->info.kind == DEVICE_GPU)
        phase_begin("pinning host memory", 0);
    first->pinned = device->pin(device, first->memory, bytes, err) == 0;
    return err->code;
}

struct meter mover_meter(const struct mover *mover, const struct meter *meter)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&mover->lock;
    pthread_mutex_lock(lock);
    struct meter now = *meter;
    pthread_mutex_unlock(lock);
    return now;
}

double mover_bytes(const struct mover *mover, const struct transfer *transfer)
{
    return (double)(transfer->block.rows * transfer->block.cols) *
           (double)problem_element(mover->problem, transfer->operand);
}

/* Bytes of a slot in its file. */
static double file_bytes(const struct mover *mover, const struct slot *slot)
{
    const struct block *block = &slot->transfer.block;
    return slot->to ? (double)(block->rows * block->cols) * (double)slot->to->element
                    : mover_bytes(mover, &slot->transfer);
}

int mover_move(struct mover *mover, const struct slot *slot, int thread, struct error *err)
{
    const struct transfer *t = &slot->transfer;
    struct meter *meter = t->again ? &mover->cache : &mover->file;
    struct span span = {.stage = (uint8_t)(t->again ? STAGE_CACHE : mover->file_stage),
                        .operand = (uint8_t)t->operand,
                        .thread = (uint16_t)thread,
                        .amount = file_bytes(mover, slot)};
    pthread_mutex_lock(&mover->lock);
    double begin = meter_begin(meter);
    pthread_mutex_unlock(&mover->lock);
    wait_file(1);
    int code = mover->move(mover->context, slot, err);
    wait_file(-1);
    double since;
    pthread_mutex_lock(&mover->lock);
    double end = meter_end(meter, code ? 0 : span.amount, &since);
    pthread_mutex_unlock(&mover->lock);
    trace_host(mover->trace, span, begin, end, since);
    return code;
}

int mover_land(struct mover *mover, const struct slot *slot, struct error *err)
{
    struct device *dev = mover->device;
    if (dev->sync(dev, slot->done, err))
        return err->code;
    struct span span = {.stage = (uint8_t)mover->link_stage,
                        .operand = (uint8_t)slot->transfer.operand,
                        .amount = (double)slot->copied *
                                  (double)problem_element(mover->problem, slot->transfer.operand)};
    trace_device(mover->trace, span, slot->from, slot->done);
    pthread_mutex_lock(&mover->lock);
    meter_add(&mover->link, dev->elapsed(dev, slot->from, slot->done), span.amount);
    pthread_mutex_unlock(&mover->lock);
    return 0;
}
