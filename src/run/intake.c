#include "intake.h"

#include <assert.h>
#include <stdlib.h>

#include "comm.h"
#include "device_matrix.h"
#include "phase.h"
#include "waits.h"
#include "window.h"

struct intake_slot {
    int64_t turn;
    bool full;
    int copies; /* outstanding copies of a full slot */
    pthread_cond_t changed;
};

struct intake_ring {
    pthread_mutex_t lock;
    bool stop;
    int64_t claimed; /* transfers that reading threads have claimed */
    struct intake_slot slots[];
};

static size_t state_bytes(int slots)
{
    return window_pages(sizeof(struct intake_ring) + (size_t)slots * sizeof(struct intake_slot));
}

/* Of a node. */
static int count_slots(const struct plan *plan, const struct comm *comm)
{
    return plan->slots_in * comm->node_size;
}

size_t intake_bytes(const struct plan *plan, const struct comm *comm)
{
    int slots = count_slots(plan, comm);
    return state_bytes(slots) + (size_t)slots * plan->slot_bytes;
}

void intake_init(void *window, const struct plan *plan, const struct comm *comm)
{
    struct intake_ring *ring = window;
    window_lock_init(&ring->lock);
    for (int i = 0; i < count_slots(plan, comm); i++) {
        ring->slots[i].turn = i;
        window_signal_init(&ring->slots[i].changed);
    }
}

void intake_stop(struct intake *in)
{
    if (!in->ring)
        return;
    window_lock(&in->ring->lock);
    in->ring->stop = true;
    for (int i = 0; i < in->count; i++)
        pthread_cond_broadcast(&in->ring->slots[i].changed);
    pthread_mutex_unlock(&in->ring->lock);
}

static void fail(struct intake *in, const struct error *err)
{
    pthread_mutex_lock(&in->lock);
    if (!in->error.code)
        in->error = *err;
    pthread_mutex_unlock(&in->lock);
    intake_stop(in);
    comm_fail(in->comm);
}

/* Claim the next transfer of the node's sequence.  False at the end. */
static bool claim(struct intake *in, int64_t *number, struct transfer *transfer)
{
    bool more = true;
    pthread_mutex_lock(&in->lock);
    window_lock(&in->ring->lock);
    *number = in->ring->claimed++;
    pthread_mutex_unlock(&in->ring->lock);
    while (more && in->reading.number < *number)
        more = cursor_next(&in->reading, transfer);
    pthread_mutex_unlock(&in->lock);
    return more;
}

bool intake_stopped(struct intake *in)
{
    window_lock(&in->ring->lock);
    bool stop = in->ring->stop;
    pthread_mutex_unlock(&in->ring->lock);
    return stop;
}

void *intake_memory(const struct intake *in, int64_t number)
{
    return in->slots[number % in->count].memory;
}

bool intake_ready(struct intake *in, int64_t number, bool full)
{
    struct intake_slot *slot = &in->ring->slots[number % in->count];
    window_lock(&in->ring->lock);
    bool ready = slot->turn == number && slot->full == full;
    pthread_mutex_unlock(&in->ring->lock);
    return ready;
}

/* Wait until a slot serves `number`, empty or full.  False when the ring was stopped. */
static bool await(struct intake *in, int64_t number, bool full)
{
    struct intake_slot *slot = &in->ring->slots[number % in->count];
    window_lock(&in->ring->lock);
    while (!in->ring->stop && (slot->turn != number || slot->full != full))
        window_wait(&slot->changed, &in->ring->lock);
    bool stop = in->ring->stop;
    pthread_mutex_unlock(&in->ring->lock);
    return !stop;
}

void intake_set_full(struct intake *in, int64_t number, int copies)
{
    struct intake_slot *slot = &in->ring->slots[number % in->count];
    window_lock(&in->ring->lock);
    slot->full = true;
    slot->copies = copies;
    pthread_cond_broadcast(&slot->changed);
    pthread_mutex_unlock(&in->ring->lock);
}

void intake_set_copied(struct intake *in, int64_t number)
{
    struct intake_slot *slot = &in->ring->slots[number % in->count];
    window_lock(&in->ring->lock);
    if (--slot->copies == 0) {
        slot->full = false;
        slot->turn += in->count;
        pthread_cond_broadcast(&slot->changed);
    }
    pthread_mutex_unlock(&in->ring->lock);
}

/* Read the next transfer of the sequence into its slot, unless the exchange receives it.  False at
 * the end. */
static bool read_next(struct intake *in, int thread, struct error *err)
{
    int64_t number;
    struct slot slot = {0};
    const struct transfer *t = &slot.transfer;
    if (!claim(in, &number, &slot.transfer))
        return false;
    if (t->from >= 0)
        return !intake_stopped(in);
    if (!await(in, number, false))
        return false;
    slot.memory = intake_memory(in, number);
    if (mover_move(&in->mover, &slot, thread, err))
        return false;
    phase_count(mover_bytes(&in->mover, t));
    intake_set_full(in, number, t->users + (t->to >= 0));
    return true;
}

/* Populate a thread's share of the slots, where they will be pinned. */
static void populate(struct intake *in, int thread)
{
    const int size = in->comm->node_size, first = thread * size + in->comm->node_rank;
    const bool pins = in->mover.device->info.kind == DEVICE_GPU;
    for (int i = first; pins && i < in->count; i += in->mover.threads * size) {
        slot_populate(&in->mover, &in->slots[i]);
        phase_count((double)in->mover.slot_bytes * size);
    }
}

static void set_ready(struct intake *in)
{
    pthread_mutex_lock(&in->lock);
    in->ready++;
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
}

/* Wait until a thread may read.  False when the ring is closed first. */
static bool await_begin(struct intake *in)
{
    pthread_mutex_lock(&in->lock);
    while (!in->begun && !in->closing)
        pthread_cond_wait(&in->changed, &in->lock);
    bool begun = in->begun;
    pthread_mutex_unlock(&in->lock);
    return begun;
}

static bool is_closing(struct intake *in)
{
    pthread_mutex_lock(&in->lock);
    bool closing = in->closing;
    pthread_mutex_unlock(&in->lock);
    return closing;
}

/* All is read: prepare C's file, where a GPU multiplies and this thread would sleep. */
static void prepare(struct intake *in)
{
    const struct mover *mover = &in->mover;
    while (mover->device->info.kind == DEVICE_GPU && !is_closing(in) && !intake_stopped(in) &&
           mover->prepare(mover->context))
        ;
}

static void *read_all(void *argument)
{
    struct intake *in = argument;
    struct error err = {0};
    pthread_mutex_lock(&in->lock);
    int thread = in->working++;
    pthread_mutex_unlock(&in->lock);
    populate(in, thread);
    set_ready(in);
    if (await_begin(in)) {
        while (read_next(in, thread, &err))
            ;
        if (!err.code)
            prepare(in);
    }
    if (err.code)
        fail(in, &err);
    return NULL;
}

/* The next slot whose copy is in flight.  Blocks; null when none will follow. */
static struct slot *next_copy(struct intake *in)
{
    pthread_mutex_lock(&in->lock);
    while (in->landed == in->given && !in->closing)
        pthread_cond_wait(&in->changed, &in->lock);
    struct slot *slot = in->landed < in->given ? in->flight[in->landed++ % in->count] : NULL;
    pthread_mutex_unlock(&in->lock);
    return slot;
}

/* A thread's first wait for a GPU takes some 20 ms: wait for what is no copy yet. */
static void first_wait(struct intake *in, struct error *err)
{
    struct device *dev = in->mover.device;
    struct event *done = in->slots[0].done;
    if (dev->record(dev, done, STREAM_IN, err) == 0)
        dev->sync(dev, done, err);
}

static void *land_all(void *argument)
{
    struct intake *in = argument;
    struct error err = {0};
    struct slot *slot;
    first_wait(in, &err);
    set_ready(in);
    while (!err.code && (slot = next_copy(in)))
        if (mover_land(&in->mover, slot, &err) == 0)
            intake_set_copied(in, slot - in->slots);
    if (err.code)
        fail(in, &err);
    return NULL;
}

static int start_threads(struct intake *in, struct error *err)
{
    int status = pthread_create(&in->lander, NULL, land_all, in);
    in->lands = status == 0;
    while (status == 0 && in->started < in->mover.threads) {
        status = pthread_create(&in->threads[in->started], NULL, read_all, in);
        in->started += status == 0;
    }
    return status == 0 ? 0 : error_no_thread(err, "reading A and B", status);
}

int intake_open(struct intake *in, void *window, const struct mover *mover, const struct plan *plan,
                const struct comm *comm, struct error *err)
{
    *in = (struct intake){
        .mover = *mover, .comm = comm, .count = count_slots(plan, comm), .ring = window};
    pthread_mutex_init(&in->lock, NULL);
    pthread_mutex_init(&in->mover.lock, NULL);
    pthread_cond_init(&in->changed, NULL);
    cursor_start(&in->reading, mover->problem, plan, comm->node);
    in->taking = in->reading;
    in->slots = calloc((size_t)in->count, sizeof *in->slots);
    in->flight = calloc((size_t)in->count, sizeof *in->flight);
    in->threads = calloc((size_t)mover->threads, sizeof *in->threads);
    if (!in->slots || !in->flight || !in->threads)
        return error_no_memory(err, "the list of slots on their way to the devices");
    char *memory = (char *)window + state_bytes(in->count);
    for (int i = 0; i < in->count; i++)
        if (slot_open(&in->slots[i], mover->device, memory + (size_t)i * mover->slot_bytes, err) ||
            mover->device->event_create(mover->device, &in->slots[i].earlier, err))
            return err->code;
    return start_threads(in, err);
}

int intake_begin(struct intake *in, struct error *err)
{
    pthread_mutex_lock(&in->lock);
    while (in->ready < in->started + in->lands)
        pthread_cond_wait(&in->changed, &in->lock);
    pthread_mutex_unlock(&in->lock);
    slot_pin(&in->mover, &in->slots[0], in->count, err);
    pthread_mutex_lock(&in->lock);
    in->begun = !err->code;
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
    return err->code;
}

int intake_check(struct intake *in, struct error *err)
{
    pthread_mutex_lock(&in->lock);
    if (in->error.code)
        *err = in->error;
    pthread_mutex_unlock(&in->lock);
    return err->code;
}

/* The reason why the ring was stopped: a complaint of this rank's, or an error elsewhere. */
static int say_why(struct intake *in, struct error *err)
{
    if (!intake_check(in, err))
        err->code = ERROR_ELSEWHERE;
    return err->code;
}

/* Advance to the next transfer that this rank needs.  False at the end. */
static bool find_next(struct intake *in)
{
    struct cursor *c = &in->taking;
    while (!in->has_next && cursor_next(c, &in->next))
        in->has_next = schedule_is_for(c->problem, c->plan, &in->next, comm_place(in->comm));
    return in->has_next;
}

const struct transfer *intake_next(struct intake *in)
{
    return find_next(in) ? &in->next : NULL;
}

bool intake_comes(struct intake *in)
{
    return find_next(in) && intake_ready(in, in->taking.number, true);
}

/* The rank that sends it here; -1: it does not come from another node. */
static int sender(const struct intake *in, const struct transfer *t)
{
    const struct comm *comm = in->comm;
    if (t->from < 0)
        return -1;
    return comm->first + schedule_server(in->taking.plan, comm->peers, t->from, t);
}

/* The next slot that this rank needs, full. */
static int take(struct intake *in, struct slot **taken, struct error *err)
{
    bool more = find_next(in);
    assert(more);
    wait_begin_panel(&in->next, sender(in, &in->next));
    bool full = await(in, in->taking.number, true);
    wait_end();
    if (!full)
        return say_why(in, err);
    *taken = &in->slots[in->taking.number % in->count];
    (*taken)->transfer = in->next;
    in->has_next = false;
    return 0;
}

/* Mark where the slot's copy begins.  A copy behind one that is still at work begins where that
 * ends, so no event is recorded for it: each costs some 3 us of a GPU's link, which copies 2 MiB in
 * 40. */
static int mark_begin(struct intake *in, struct slot *slot, struct error *err)
{
    struct device *dev = in->mover.device;
    struct event *done = slot->earlier;
    slot->earlier = slot->done;
    slot->done = done;
    bool follows = in->ahead && !dev->reached(dev, in->ahead);
    slot->from = follows ? in->ahead : slot->start;
    in->ahead = slot->done;
    return follows ? 0 : dev->record(dev, slot->start, STREAM_IN, err);
}

void intake_interrupt(struct intake *in)
{
    in->ahead = NULL;
}

/* The copy from the slot is enqueued up to its event `done`. */
static void give(struct intake *in, struct slot *slot)
{
    pthread_mutex_lock(&in->lock);
    in->flight[in->given++ % in->count] = slot;
    pthread_cond_signal(&in->changed);
    pthread_mutex_unlock(&in->lock);
}

int intake_copy(struct intake *in, const struct device_matrix *to,
                const struct device_matrix *other, struct error *err)
{
    struct device *dev = in->mover.device;
    struct slot *slot;
    if (take(in, &slot, err))
        return err->code;
    const struct block *all = &slot->transfer.block;
    struct block parts[2] = {0};
    struct copy copies[] = {device_matrix_copy_common(to, all, slot->memory, &parts[0]),
                            other ? device_matrix_copy_common(other, all, slot->memory, &parts[1])
                                  : (struct copy){0}};
    slot->copied = parts[0].rows * parts[0].cols + parts[1].rows * parts[1].cols;
    if (mark_begin(in, slot, err) || dev->copy(dev, STREAM_IN, &copies[0], err) ||
        (other && dev->copy(dev, STREAM_IN, &copies[1], err)) ||
        dev->record(dev, slot->done, STREAM_IN, err))
        return err->code;
    give(in, slot);
    return 0;
}

static void join(struct intake *in)
{
    pthread_mutex_lock(&in->lock);
    in->closing = true;
    pthread_cond_broadcast(&in->changed);
    pthread_mutex_unlock(&in->lock);
    while (in->started > 0)
        pthread_join(in->threads[--in->started], NULL);
    if (in->lands)
        pthread_join(in->lander, NULL);
    in->lands = false;
}

int intake_finish(struct intake *in, struct error *err)
{
    wait_begin(WAIT_FOR_RANKS); /* whose copies are outstanding */
    join(in);
    wait_end();
    return intake_stopped(in) ? say_why(in, err) : 0;
}

void intake_close(struct intake *in)
{
    if (!in->mover.device)
        return;
    join(in);
    for (int i = 0; in->slots && i < in->count; i++)
        slot_close(&in->slots[i], in->mover.device);
    free(in->slots);
    free(in->flight);
    free(in->threads);
    pthread_cond_destroy(&in->changed);
    pthread_mutex_destroy(&in->mover.lock);
    pthread_mutex_destroy(&in->lock);
    *in = (struct intake){0};
}
