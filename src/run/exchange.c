#include "exchange.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "cache.h"
#include "comm.h"
#include "comm_impl.h"
#include "error.h"
#include "intake.h"
#include "trace.h"
#include "waits.h"

enum {
    TAGS = 1 << 14,   /* for pieces, and as many for asking; far more than transfers on their way */
    SENDS = 2,        /* at a time to one rank: of more each would take longer to leave its slot */
    PIECE = 15 << 10, /* bytes, at least; what MPI sends over sockets without asking first */
    LANES = 16,       /* pieces of a passage on their way */
    ASKED = LANES,    /* the request after those */
    REQUESTS,
};

static const double piece_seconds = 5e-4; /* at least, at the rate of what has come */

/* In this order; some transfers leave some out. */
enum state {
    NOTHING,
    READING, /* threads of the node fill the slot */
    COMING,
    FULL, /* and to go on */
    GOING,
    KEEPING, /* until the cache has room for it */
};

struct passage {
    enum state state;
    struct transfer transfer;
    int64_t number;
    int from, to; /* ranks; -1: none */
    int tag_from, tag_to;
    int piece, pieces, posted, through; /* of what is on its way; bytes, and how many */
    int wanted;                         /* bytes of a piece, by whoever it goes to */
    bool asked;                         /* who has a slot for it */
    double begin;
};

struct request {
    MPI_Request of_mpi;
};

struct status {
    MPI_Status of_mpi;
};

struct peer {
    int64_t from, to; /* transfers that were entered */
    int64_t sent;     /* MPI's messages that were posted */
};

/* The rank of a node (both of this layer) that serves a transfer; -1: no node. */
static int server(const struct exchange *x, int node, const struct transfer *t)
{
    if (node < 0)
        return -1;
    return x->comm->first + schedule_server(x->cursor.plan, x->comm->peers, node, t);
}

static MPI_Request *request_of(struct exchange *x, const struct passage *p, int lane)
{
    return &x->requests[(p - x->passages) * REQUESTS + lane].of_mpi;
}

static int bytes_of(const struct exchange *x, const struct passage *p)
{
    return (int)mover_bytes(&x->in->mover, &p->transfer);
}

/* Say which message is the oldest, when that has changed. */
static void note_oldest(struct exchange *x)
{
    const struct passage *oldest = NULL;
    for (const struct passage *p = x->passages; p < x->passages + x->in->count; p++)
        if (p->state >= COMING && p->state <= GOING && (!oldest || p->number < oldest->number))
            oldest = p;
    int64_t noted = oldest ? 2 * oldest->number + (oldest->state != COMING) : -1;
    if (noted == x->noted)
        return;
    x->noted = noted;
    if (oldest)
        wait_begin_message(oldest->state == COMING ? oldest->from : oldest->to,
                           oldest->state == COMING);
    else
        wait_end_message();
}

/* Post the next piece, if there is one. */
static void post(struct exchange *x, struct passage *p, int lane)
{
    if (p->posted == p->pieces)
        return;
    int begin = p->posted++ * p->piece, rest = bytes_of(x, p) - begin;
    int bytes = rest < p->piece ? rest : p->piece;
    char *piece = (char *)intake_memory(x->in, p->number) + begin;
    MPI_Request *request = request_of(x, p, lane);
    if (p->state == COMING) {
        MPI_Irecv(piece, bytes, MPI_BYTE, p->from, p->tag_from, x->comm->links->panels, request);
        return;
    }
    MPI_Isend(piece, bytes, MPI_BYTE, p->to, p->tag_to, x->comm->links->panels, request);
    x->peers[p->to].sent++;
}

static void post_first(struct exchange *x, struct passage *p, enum state state, int piece)
{
    p->state = state;
    p->piece = piece;
    p->pieces = (bytes_of(x, p) + piece - 1) / piece;
    p->posted = p->through = 0;
    for (int lane = 0; lane < LANES; lane++)
        post(x, p, lane);
}

static int piece_bytes(const struct exchange *x)
{
    double most = (double)x->in->mover.slot_bytes;
    if (!(x->meter.busy_s > 0))
        return PIECE;
    return (int)fmin(most, fmax(PIECE, piece_seconds * x->meter.amount / x->meter.busy_s));
}

/* Ask for it, and say how it shall be cut.  The first piece tells that this has been heard. */
static void receive(struct exchange *x, struct passage *p)
{
    MPI_Request request;
    comm_lock();
    post_first(x, p, COMING, piece_bytes(x));
    MPI_Isend(&p->piece, 1, MPI_INT, p->from, TAGS + p->tag_from, x->comm->links->panels, &request);
    MPI_Request_free(&request);
    p->begin = meter_begin(&x->meter);
    comm_unlock();
    x->peers[p->from].sent++;
}

static void expect_asking(struct exchange *x, struct passage *p)
{
    comm_lock();
    MPI_Irecv(&p->wanted, 1, MPI_INT, p->to, TAGS + p->tag_to, x->comm->links->panels,
              request_of(x, p, ASKED));
    comm_unlock();
}

static void pass_on(struct exchange *x, struct passage *p)
{
    comm_lock();
    post_first(x, p, GOING, p->wanted);
    comm_unlock();
}

/* Whether it was asked for, and few are on their way to the same rank. */
static bool has_way(const struct exchange *x, const struct passage *p)
{
    int going = 0;
    for (const struct passage *other = x->passages; other < x->passages + x->in->count; other++)
        going += other->state == GOING && other->to == p->to;
    return p->asked && going < SENDS;
}

/* Send the earliest of those that may go.  False when none may. */
static bool send_next(struct exchange *x)
{
    struct passage *next = NULL;
    for (struct passage *p = x->passages; p < x->passages + x->in->count; p++)
        if (p->state == FULL && (!next || p->number < next->number) && has_way(x, p))
            next = p;
    if (next)
        pass_on(x, next);
    return next != NULL;
}

static void end(struct exchange *x, struct passage *p)
{
    p->state = NOTHING;
    x->passing--;
}

/* What has come is there for the node's ranks. */
static void arrive(struct exchange *x, struct passage *p)
{
    const struct transfer *t = &p->transfer;
    struct span span = {
        .stage = STAGE_NETWORK, .operand = (uint8_t)t->operand, .amount = bytes_of(x, p)};
    comm_lock();
    double since, now = meter_end(&x->meter, span.amount, &since);
    comm_unlock();
    trace_host(x->trace, span, fmax(p->begin, x->arrived), now, since); /* one after the other */
    x->arrived = now;
    intake_set_full(x->in, p->number, t->users + (p->to >= 0) + (t->kept >= 0));
}

/* From one state to the next.  False when the transfer has to stay in its state for now. */
static bool proceed(struct exchange *x, struct passage *p)
{
    const struct transfer *t = &p->transfer;
    switch (p->state) {
    case READING:
        if (!intake_ready(x->in, p->number, true))
            return false;
        break;
    case COMING: arrive(x, p); break;
    case GOING: intake_set_copied(x->in, p->number); break;
    case KEEPING:
        if (!cache_has_room(x->cache, t))
            return false;
        cache_put(x->cache, t, intake_memory(x->in, p->number));
        intake_set_copied(x->in, p->number);
        break;
    default: return false;
    }
    if (p->state < FULL && p->to >= 0)
        p->state = FULL;
    else if (p->state < KEEPING && p->from >= 0 && t->kept >= 0)
        p->state = KEEPING;
    else
        end(x, p);
    return true;
}

/* Find the next transfer that this rank serves.  False at the end. */
static bool find_next(struct exchange *x)
{
    struct transfer *t = &x->next;
    while (!x->has_next && cursor_next(&x->cursor, t))
        x->has_next = (t->from >= 0 || t->to >= 0) && server(x, x->cursor.node, t) == x->comm->rank;
    return x->has_next;
}

/* Enter the next transfer, if its slot has room for it by now. */
static bool enter(struct exchange *x)
{
    if (!find_next(x))
        return false;
    int64_t number = x->cursor.number;
    struct passage *p = &x->passages[number % x->in->count];
    bool comes = x->next.from >= 0;
    if (p->state != NOTHING || (comes && !intake_ready(x->in, number, false)))
        return false;
    *p = (struct passage){.state = READING,
                          .transfer = x->next,
                          .number = number,
                          .from = server(x, x->next.from, &x->next),
                          .to = server(x, x->next.to, &x->next)};
    if (p->from >= 0)
        p->tag_from = (int)(x->peers[p->from].from++ % TAGS);
    if (p->to >= 0) {
        p->tag_to = (int)(x->peers[p->to].to++ % TAGS);
        expect_asking(x, p);
    }
    if (comes)
        receive(x, p);
    x->passing++;
    x->has_next = false;
    return true;
}

/* Of the requests, those that are through; their number. */
static int find_done(struct exchange *x)
{
    int done;
    comm_lock();
    MPI_Testsome(x->in->count * REQUESTS, &x->requests->of_mpi, &done, x->done,
                 &x->statuses->of_mpi);
    comm_unlock();
    done = done == MPI_UNDEFINED ? 0 : done;
    for (int i = 0; i < done; i++)
        x->came +=
            x->done[i] % REQUESTS == ASKED || x->passages[x->done[i] / REQUESTS].state == COMING;
    return done;
}

/* Go on after a request that is through. */
static void go_on(struct exchange *x, int request)
{
    struct passage *p = &x->passages[request / REQUESTS];
    int lane = request % REQUESTS;
    if (lane == ASKED) {
        p->asked = true;
        return;
    }
    comm_lock();
    post(x, p, lane);
    comm_unlock();
    if (++p->through == p->pieces)
        proceed(x, p);
}

/* Serve all that can be served.  Whether there was anything. */
static bool serve(struct exchange *x)
{
    bool moved = false;
    while (enter(x))
        moved = true;
    int done = find_done(x);
    for (int i = 0; i < done; i++)
        go_on(x, x->done[i]);
    moved |= done > 0;
    for (struct passage *p = x->passages; p < x->passages + x->in->count; p++)
        if (p->state == READING || p->state == KEEPING)
            moved |= proceed(x, p);
    while (moved && send_next(x))
        ;
    if (moved)
        note_oldest(x);
    return moved;
}

/* To the end of the sequence, or until the run is to end: this node's ring was stopped, or another
 * rank has failed. */
static void *work(void *argument)
{
    struct exchange *x = argument;
    for (int64_t looks = 1; !intake_stopped(x->in); looks++) {
        if (looks % LOOKS == 0 && comm_raised(x->comm))
            intake_stop(x->in);
        if (serve(x))
            continue;
        if (!find_next(x) && x->passing == 0 && atomic_load(&x->ending))
            break;
        comm_nap();
    }
    return NULL;
}

int exchange_open(struct exchange *x, struct comm *comm, struct intake *in, struct cache *cache,
                  struct trace *trace, struct error *err)
{
    *x = (struct exchange){.comm = comm, .in = in, .cache = cache, .trace = trace, .noted = -1};
    if (comm->nodes == 1)
        return 0;
    x->open = true;
    x->cursor = in->taking;
    x->passages = calloc((size_t)in->count, sizeof *x->passages);
    x->requests = calloc((size_t)in->count * REQUESTS, sizeof *x->requests);
    x->done = calloc((size_t)in->count * REQUESTS, sizeof *x->done);
    x->statuses = calloc((size_t)in->count * REQUESTS, sizeof *x->statuses);
    x->peers = calloc((size_t)comm->size, sizeof *x->peers);
    if (!x->passages || !x->requests || !x->done || !x->statuses || !x->peers)
        return error_no_memory(err, "the list of messages between nodes");
    for (int i = 0; i < in->count * REQUESTS; i++)
        x->requests[i].of_mpi = MPI_REQUEST_NULL;
    int status = pthread_create(&x->thread, NULL, work, x);
    x->running = status == 0;
    return x->running ? 0 : error_no_thread(err, "messages between nodes", status);
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

/* Receive and drop a message that this rank has not asked for, if there is one. */
static bool drop(struct exchange *x)
{
    int waits;
    MPI_Message message;
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, x->comm->links->panels, &waits, &message,
                MPI_STATUS_IGNORE);
    if (!waits)
        return false;
    size_t bytes = x->in->mover.slot_bytes;
    void *scratch = malloc(bytes);
    if (!scratch)
        comm_no_memory(x->comm, "an unwanted panel");
    MPI_Mrecv(scratch, (int)bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    free(scratch);
    x->came++;
    return true;
}

/* How many messages have been sent to this rank. */
static int64_t count_sent(struct exchange *x)
{
    int64_t *sent = calloc((size_t)x->comm->size, sizeof *sent), to_me;
    if (!sent || !x->passages || !x->requests || !x->done || !x->peers)
        comm_no_memory(x->comm, "the exchange of panels");
    for (int rank = 0; rank < x->comm->size; rank++)
        sent[rank] = x->peers[rank].sent;
    MPI_Reduce_scatter_block(sent, &to_me, 1, MPI_INT64_T, MPI_SUM, x->comm->links->all);
    free(sent);
    return to_me;
}

/* Let everything that was sent come, and take back what was asked for and not sent.  Those who are
 * through with it wait for the others, so that nothing newer comes meanwhile. */
static void clear_messages(struct exchange *x)
{
    int64_t sent = count_sent(x), going = 0;
    for (const struct passage *p = x->passages; p < x->passages + x->in->count; p++)
        going += p->state == GOING ? p->posted - p->through : 0;
    while (x->came < sent || going > 0) {
        int done = find_done(x);
        for (int i = 0; i < done; i++)
            going -=
                x->done[i] % REQUESTS != ASKED && x->passages[x->done[i] / REQUESTS].state == GOING;
        if (!drop(x) && done == 0)
            comm_nap();
    }
    for (int i = 0; i < x->in->count * REQUESTS; i++) {
        MPI_Request *request = &x->requests[i].of_mpi;
        if (*request == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(x->comm->links->all);
}

void exchange_close(struct exchange *x)
{
    if (!x->open)
        return;
    wait_begin(WAIT_FOR_RANKS);
    clear_messages(x);
    wait_end_message();
    wait_end();
    free(x->passages);
    free(x->requests);
    free(x->done);
    free(x->statuses);
    free(x->peers);
    *x = (struct exchange){0};
}
