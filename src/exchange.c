#include "exchange.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "cache.h"
#include "comm.h"
#include "comm_impl.h"
#include "error.h"
#include "intake.h"
#include "quantity.h"
#include "trace.h"
#include "waits.h"

struct message {
    MPI_Request request;
    struct transfer transfer;
    int64_t number;
    int peer;
    bool comes;
    double begin;
};

/* The rank of a node (both of this layer) that serves a transfer. */
static int server(const struct exchange *x, int node, const struct transfer *t)
{
    return x->comm->first + schedule_server(x->cursor.plan, x->comm->peers, node, t);
}

static struct message *message_at(struct exchange *x, int64_t index)
{
    return &x->messages[index % x->in->count];
}

static void note_oldest(struct exchange *x)
{
    const struct message *oldest = message_at(x, x->done);
    if (x->done < x->posted)
        wait_begin_message(oldest->peer, oldest->comes);
    else
        wait_end_message();
}

/* Post one message, whose slot is ready. */
static void post(struct exchange *x, const struct transfer *t, int peer, bool comes)
{
    struct message *message = message_at(x, x->posted++);
    void *memory = intake_memory(x->in, x->cursor.number);
    int bytes = (int)mover_bytes(&x->in->mover, t);
    *message =
        (struct message){.transfer = *t, .number = x->cursor.number, .peer = peer, .comes = comes};
    comm_lock();
    if (comes)
        MPI_Irecv(memory, bytes, MPI_BYTE, peer, TAG_PANEL, comm_world(), &message->request);
    else
        MPI_Isend(memory, bytes, MPI_BYTE, peer, TAG_PANEL, comm_world(), &message->request);
    if (comes)
        message->begin = meter_begin(&x->meter);
    comm_unlock();
    (comes ? x->received : x->sent)[peer]++;
    if (x->posted - x->done == 1)
        note_oldest(x);
}

/* What a message has brought is there for the node's ranks, and kept where it is to be. */
static void arrive(struct exchange *x, const struct message *m)
{
    struct span span = {.stage = STAGE_NETWORK,
                        .operand = (uint8_t)m->transfer.operand,
                        .amount = mover_bytes(&x->in->mover, &m->transfer)};
    comm_lock();
    double since, end = meter_end(&x->meter, span.amount, &since);
    comm_unlock();
    trace_host(x->trace, span, fmax(m->begin, x->arrived), end, since); /* one after the other */
    x->arrived = end;
    if (m->transfer.kept >= 0)
        cache_put(x->cache, &m->transfer, intake_memory(x->in, m->number));
    intake_set_full(x->in, m->number, m->transfer.users);
}

/* Settle the oldest message, if it is through. */
static bool settle(struct exchange *x)
{
    int done = 0;
    struct message *message = message_at(x, x->done);
    if (x->done == x->posted)
        return false;
    comm_lock();
    MPI_Test(&message->request, &done, MPI_STATUS_IGNORE);
    comm_unlock();
    if (!done)
        return false;
    x->done++;
    note_oldest(x);
    if (message->comes)
        arrive(x, message);
    else
        intake_set_copied(x->in, message->number);
    return true;
}

/* Let time pass, and settle what is through meanwhile.  False when the run is to end: this node's
 * ring was stopped, or another rank has failed. */
static bool look(struct exchange *x, int *looks)
{
    static const struct timespec nap = {.tv_nsec = NAP_NANOSECONDS};
    if (!settle(x))
        nanosleep(&nap, NULL);
    if (++*looks % LOOKS == 0 && comm_raised(x->comm))
        intake_stop(x->in);
    return !intake_stopped(x->in);
}

static bool await_slot(struct exchange *x, bool full)
{
    int looks = 0;
    while (!intake_ready(x->in, x->cursor.number, full) || x->posted - x->done == x->in->count)
        if (!look(x, &looks))
            return false;
    return true;
}

/* To all other nodes that the panel comes to. */
static bool send_all(struct exchange *x, const struct transfer *t)
{
    const struct cursor *c = &x->cursor;
    for (int i = 0; i < t->fetchers; i++) {
        int node;
        schedule_fetchers(c->problem, c->plan, t->operand, t->line, t->super, t->slab, i, &node);
        if (node == c->node)
            continue;
        if (!await_slot(x, true))
            return false;
        post(x, t, server(x, node, t), false);
    }
    return true;
}

static bool serve(struct exchange *x, const struct transfer *t)
{
    int node = x->cursor.node;
    if (t->again || t->fetchers == 1 || server(x, node, t) != x->comm->rank)
        return true;
    if (t->reader == node)
        return send_all(x, t);
    if (!await_slot(x, false))
        return false;
    post(x, t, server(x, t->reader, t), true);
    return true;
}

static void *work(void *argument)
{
    struct exchange *x = argument;
    struct transfer transfer;
    bool more = true;
    int looks = 0;
    while (more && cursor_next(&x->cursor, &transfer))
        more = serve(x, &transfer);
    while (more && (x->done < x->posted || !atomic_load(&x->ending)))
        more = look(x, &looks);
    return NULL;
}

int exchange_open(struct exchange *x, struct comm *comm, struct intake *in, struct cache *cache,
                  struct trace *trace, struct error *err)
{
    *x = (struct exchange){.comm = comm, .in = in, .cache = cache, .trace = trace};
    if (comm->nodes == 1)
        return 0;
    x->open = true;
    x->cursor = in->taking;
    x->messages = calloc((size_t)in->count, sizeof *x->messages);
    x->sent = calloc((size_t)comm->size, sizeof *x->sent);
    x->received = calloc((size_t)comm->size, sizeof *x->received);
    if (!x->messages || !x->sent || !x->received)
        return error_add(err, EXIT_RESOURCES, "out of host memory");
    x->running = pthread_create(&x->thread, NULL, work, x) == 0;
    return x->running ? 0 : error_add(err, EXIT_RESOURCES, "cannot start a thread");
}

struct meter exchange_meter(const struct exchange *x)
{
    comm_lock();
    struct meter now = x->meter;
    comm_unlock();
    return now;
}

void exchange_finish(struct exchange *x)
{
    atomic_store(&x->ending, true);
    wait_begin(WAIT_FOR_RANKS);
    if (x->running)
        pthread_join(x->thread, NULL);
    wait_end();
    x->running = false;
}

/* Messages that a rank has sent and this one has not asked for are received and dropped; those that
 * it has asked for and that were not sent are taken back.  The order of messages makes these the
 * newest. */
static void settle_with(struct exchange *x, int peer, int64_t sent)
{
    size_t bytes = x->in->mover.slot_bytes;
    for (; x->received[peer] < sent; x->received[peer]++) {
        void *scratch = malloc(bytes);
        if (!scratch)
            comm_abort(EXIT_RESOURCES);
        MPI_Recv(scratch, (int)bytes, MPI_BYTE, peer, TAG_PANEL, comm_world(), MPI_STATUS_IGNORE);
        free(scratch);
    }
    for (int64_t i = x->posted; i-- > x->done && x->received[peer] > sent;) {
        struct message *message = message_at(x, i);
        if (!message->comes || message->peer != peer)
            continue;
        MPI_Cancel(&message->request);
        x->received[peer]--;
    }
}

void exchange_close(struct exchange *x)
{
    if (!x->open)
        return;
    int64_t *sent = calloc((size_t)x->comm->size, sizeof *sent);
    if (!sent || !x->sent || !x->received)
        comm_abort(EXIT_RESOURCES);
    wait_begin(WAIT_FOR_RANKS);
    MPI_Alltoall(x->sent, 1, MPI_INT64_T, sent, 1, MPI_INT64_T, comm_world());
    for (int peer = 0; peer < x->comm->size; peer++)
        settle_with(x, peer, sent[peer]);
    for (; x->done < x->posted; x->done++)
        MPI_Wait(&message_at(x, x->done)->request, MPI_STATUS_IGNORE);
    wait_end_message();
    wait_end();
    free(sent);
    free(x->messages);
    free(x->sent);
    free(x->received);
    *x = (struct exchange){0};
}
