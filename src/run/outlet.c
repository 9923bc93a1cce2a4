#include "outlet.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "comm.h"
#include "device_matrix.h"
#include "phase.h"
#include "waits.h"

enum { COPIES_AHEAD = 200 }; /* each with two events; CUDA's queue holds about 1000 of all these */

/* End all waiting.  Called with the lock held. */
static void stop(struct outlet *o)
{
    o->stop = true;
    pthread_cond_broadcast(&o->freed);
    pthread_cond_broadcast(&o->more);
}

static void fail(struct outlet *o, const struct error *err)
{
    pthread_mutex_lock(&o->lock);
    if (!o->error.code)
        o->error = *err;
    stop(o);
    pthread_mutex_unlock(&o->lock);
}

void outlet_return(struct outlet *o, struct slot *slot)
{
    pthread_mutex_lock(&o->lock);
    o->free[o->frees++] = slot;
    pthread_cond_signal(&o->freed);
    pthread_mutex_unlock(&o->lock);
}

/* Populate a thread's share of the slots, where they will be pinned. */
static void populate(struct outlet *o, int thread)
{
    bool pins = o->mover.device->info.kind == DEVICE_GPU;
    for (int i = thread; pins && i < o->count; i += o->mover.threads) {
        slot_populate(&o->mover, &o->slots[i]);
        phase_count((double)o->mover.slot_bytes);
    }
    pthread_mutex_lock(&o->lock);
    o->populated++;
    pthread_cond_broadcast(&o->freed);
    pthread_mutex_unlock(&o->lock);
}

static void set_written(struct outlet *o, struct slot *slot)
{
    const double bytes = mover_bytes(&o->mover, &slot->transfer);
    pthread_mutex_lock(&o->lock);
    o->written++;
    o->left -= bytes;
    phase_count(bytes);
    pthread_mutex_unlock(&o->lock);
    outlet_return(o, slot);
}

/* There is nothing to write: wait, or prepare the file.  Called with the lock held. */
static void idle(struct outlet *o)
{
    if (o->prepared || o->preparing == o->mover.preparers) {
        pthread_cond_wait(&o->more, &o->lock);
        return;
    }
    o->preparing++;
    pthread_mutex_unlock(&o->lock);
    bool more = o->mover.prepare(o->mover.context);
    pthread_mutex_lock(&o->lock);
    o->preparing--;
    o->prepared |= !more;
}

/* The next slot that the main thread gave; null at the end. */
static struct slot *claim(struct outlet *o)
{
    pthread_mutex_lock(&o->lock);
    while (!o->stop && o->claimed == o->submitted)
        idle(o);
    bool none = o->claimed == o->submitted || o->error.code;
    struct slot *slot = none ? NULL : o->given[o->claimed++ % o->count];
    pthread_mutex_unlock(&o->lock);
    return slot;
}

static void *work(void *argument)
{
    struct outlet *o = argument;
    struct slot *slot;
    struct error err = {0};
    pthread_mutex_lock(&o->lock);
    int thread = o->working++;
    pthread_mutex_unlock(&o->lock);
    populate(o, thread);
    while (!err.code && (slot = claim(o)))
        if (mover_land(&o->mover, slot, &err) == 0 &&
            mover_move(&o->mover, slot, thread, &err) == 0)
            set_written(o, slot);
    if (err.code) {
        fail(o, &err);
        comm_fail(o->mover.comm);
    }
    return NULL;
}

static int open_slots(struct outlet *o, struct error *err)
{
    size_t bytes = o->mover.slot_bytes * (size_t)o->count;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_no_memory(err, "parts of C on their way to its file");
    madvise(memory, bytes, MADV_HUGEPAGE);
    o->memory = memory;
    while (o->opened < o->count) {
        int i = o->opened++;
        if (slot_open(&o->slots[i], o->mover.device, o->memory + (size_t)i * o->mover.slot_bytes,
                      err))
            return err->code;
    }
    return 0;
}

static int write_slot(void *context, const struct slot *slot, struct error *err)
{
    (void)context;
    return slot->to->write(slot->to->context, &slot->transfer.block, slot->memory, err);
}

int outlet_open(struct outlet *o, const struct mover *mover, int count, struct error *err)
{
    *o = (struct outlet){.mover = *mover, .count = count};
    o->mover.move = write_slot;
    pthread_mutex_init(&o->lock, NULL);
    pthread_mutex_init(&o->mover.lock, NULL);
    pthread_cond_init(&o->freed, NULL);
    pthread_cond_init(&o->more, NULL);
    o->slots = calloc((size_t)count, sizeof *o->slots);
    o->free = calloc((size_t)count, sizeof *o->free);
    o->given = calloc((size_t)count, sizeof *o->given);
    o->threads = calloc((size_t)mover->threads, sizeof *o->threads);
    if (!o->slots || !o->free || !o->given || !o->threads)
        return error_no_memory(err, "the list of slots on their way to C");
    if (open_slots(o, err))
        return err->code;
    while (o->started < o->mover.threads) {
        int status = pthread_create(&o->threads[o->started], NULL, work, o);
        if (status != 0)
            return error_no_thread(err, "writing C", status);
        o->started++;
    }
    return 0;
}

int outlet_begin(struct outlet *o, struct error *err)
{
    pthread_mutex_lock(&o->lock);
    while (o->populated < o->started)
        pthread_cond_wait(&o->freed, &o->lock);
    pthread_mutex_unlock(&o->lock);
    if (slot_pin(&o->mover, &o->slots[0], o->count, err))
        return err->code;
    for (int i = o->count - 1; i >= 0; i--)
        outlet_return(o, &o->slots[i]);
    return 0;
}

bool outlet_ready(struct outlet *o)
{
    pthread_mutex_lock(&o->lock);
    bool ready = o->frees > 0 || o->error.code;
    pthread_mutex_unlock(&o->lock);
    return ready;
}

bool outlet_flows(struct outlet *o)
{
    struct device *dev = o->mover.device;
    pthread_mutex_lock(&o->lock);
    int64_t number = o->count > COPIES_AHEAD ? o->submitted - COPIES_AHEAD : -1;
    struct slot *slot = number >= 0 ? o->given[number % o->count] : NULL;
    bool landed = !slot || slot->number != number; /* it has been given again */
    pthread_mutex_unlock(&o->lock);
    return landed || dev->reached(dev, slot->done);
}

int outlet_take(struct outlet *o, struct slot **taken, struct error *err)
{
    wait_begin(WAIT_FOR_SLOT);
    pthread_mutex_lock(&o->lock);
    while (!o->error.code && o->frees == 0)
        pthread_cond_wait(&o->freed, &o->lock);
    wait_end();
    if (o->error.code)
        *err = o->error;
    else
        *taken = o->free[--o->frees];
    pthread_mutex_unlock(&o->lock);
    return err->code;
}

/* The copy to the slot is enqueued between its events `start` and `done`.  A thread writes it as
 * `slot->transfer` says, and frees it. */
static void give(struct outlet *o, struct slot *slot)
{
    pthread_mutex_lock(&o->lock);
    slot->number = o->submitted++;
    o->left += mover_bytes(&o->mover, &slot->transfer);
    o->given[slot->number % o->count] = slot;
    pthread_cond_signal(&o->more);
    pthread_mutex_unlock(&o->lock);
}

int outlet_copy(struct outlet *o, const struct device_matrix *from, const struct block *part,
                const struct sink *to, struct error *err)
{
    struct device *dev = o->mover.device;
    struct slot *slot;
    if (outlet_take(o, &slot, err))
        return err->code;
    struct copy copy = device_matrix_copy_out(slot->memory, from, part);
    if (dev->record(dev, slot->start, STREAM_OUT, err) || dev->copy(dev, STREAM_OUT, &copy, err) ||
        dev->record(dev, slot->done, STREAM_OUT, err))
        return err->code;
    slot->transfer = (struct transfer){.operand = OPERAND_C, .block = *part};
    slot->copied = part->rows * part->cols;
    slot->to = to;
    give(o, slot);
    return 0;
}

int outlet_drain(struct outlet *o, struct error *err)
{
    wait_begin(WAIT_FOR_SLOT);
    pthread_mutex_lock(&o->lock);
    while (!o->error.code && o->written < o->submitted)
        pthread_cond_wait(&o->freed, &o->lock);
    wait_end();
    if (o->error.code)
        *err = o->error;
    pthread_mutex_unlock(&o->lock);
    return err->code;
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
    pthread_mutex_lock(&o->lock);
    phase_begin("writing the rest of C", o->left);
    pthread_mutex_unlock(&o->lock);
    wait_begin(WAIT_FOR_SLOT);
    join(o); /* which still write all that was given */
    wait_end();
    return outlet_check(o, err);
}

void outlet_close(struct outlet *o)
{
    struct device *device = o->mover.device;
    if (!device)
        return;
    fail(o, &(struct error){.code = EXIT_RUNTIME}); /* what has not been written is dropped */
    join(o);
    for (int i = 0; i < o->opened; i++)
        slot_close(&o->slots[i], device);
    if (o->memory)
        munmap(o->memory, o->mover.slot_bytes * (size_t)o->count);
    free(o->slots);
    free(o->free);
    free(o->given);
    free(o->threads);
    pthread_cond_destroy(&o->freed);
    pthread_cond_destroy(&o->more);
    pthread_mutex_destroy(&o->lock);
    pthread_mutex_destroy(&o->mover.lock);
    *o = (struct outlet){0};
}
