/* The exchange between nodes: what one has read, the others that need it get from there.
 *
 * The nodes that need a panel form a ring.  One of them reads a part and sends it to the next,
 * which passes it on, until the node before the reader has it.  So a part crosses each node's link
 * at most once in and once out, and leaves its slot after one send.  Readers take turns in the same
 * direction.  Where the slots of a node hold a part of each reader (plan->turn is 1), all nodes
 * send what they have read at the same time, and all links are busy.  Where they do not, a reader's
 * turn is several parts, and only its end costs a little: a link waits for one part
 * (plan_turn_rate).
 *
 * On each rank a thread walks the node's sequence of transfers (schedule.h) and serves its share of
 * them.  It enters them in order, each when its slot is free for it; from then on each goes at its
 * own pace, so that a node need not wait for others' parts before it sends its own.  Both ends
 * know from the schedule alone which of their ranks serves a transfer, and which of the transfers
 * between these two it is: that number is its tag.
 *
 * A rank that enters a transfer which comes to it asks for it.  The slot then comes in pieces,
 * which MPI sends over sockets without asking first: two nodes have one socket between them, in
 * which MPI's own asking waits behind whole slots that go the same way, so that they send in turn.
 * Where more comes than such sockets give, pieces grow, since each takes the thread some time.
 *
 * Nobody waits for ever.  All panels' transfers of all nodes have one order (step, B before A,
 * those that are ahead last, part of what comes in the step, line), which each node's sequence
 * follows; no product needs one of a later step.  Take the first transfer that is not done on all
 * its nodes.  All before it are, so each of its nodes has a slot for it, has entered it, and has
 * read it or asked for it; each sends it once few others are on their way, which all were asked
 * for and so are soon through; and what the devices wait for before they copy it has come.  So it
 * goes from node to node, and leaves its slots.  For that the thread never waits for one thing
 * alone, not even for a place in the cache. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "meter.h"
#include "schedule.h"

struct cache;
struct comm;
struct error;
struct intake;
struct passage; /* of a transfer through this rank */
struct peer;
struct request;
struct status;
struct trace;

struct exchange {
    struct comm *comm;
    struct intake *in;
    struct cache *cache;
    struct trace *trace;
    struct cursor cursor;
    struct transfer next; /* to be entered; that of the cursor's number */
    bool has_next;
    struct passage *passages; /* one for each slot, */
    struct request *requests; /* its requests, */
    int *done;                /* room to say which are through, */
    struct status *statuses;  /* and how, which MPI tells in any case */
    int64_t passing;          /* passages at work */
    struct peer *peers;       /* all ranks */
    int64_t came;             /* MPI's messages so far */
    int64_t noted;            /* which message was said to be the oldest; -1: none */
    pthread_t thread;
    bool open, running;
    atomic_bool ending;
    double arrived;     /* when the newest message did */
    struct meter meter; /* what came; guarded by comm_lock as long as the thread runs */
};

/* On all ranks, once all have opened their intakes.  Starts the thread, where there are several
 * nodes.  After a failure exchange_close is still due. */
int exchange_open(struct exchange *exchange, struct comm *comm, struct intake *in,
                  struct cache *cache, struct trace *trace, struct error *err);

/* End the thread, once it has served the sequence to its end, unless the node's ring was stopped.
 * Until then it lets MPI proceed with what this rank has sent, whatever the main thread waits for.
 * From then on only the main thread uses MPI. */
void exchange_finish(struct exchange *exchange);

/* What has come by now. */
struct meter exchange_meter(const struct exchange *exchange);

/* Collective, after exchange_finish.  Whatever is still on its way is received and dropped. */
void exchange_close(struct exchange *exchange);
