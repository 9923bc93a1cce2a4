/* The exchange between nodes: what one has read, the others that need it get from there.
 *
 * On each rank a thread walks the node's sequence of transfers (schedule.h) and serves its share of
 * them, in order: from a full slot of the node's ring to the other nodes that want it, or from
 * another node into an empty one.  Both ends know from the schedule alone which of their ranks
 * serves a transfer, so that messages carry nothing but data; between two ranks they are matched in
 * the order of the sequence.  Every message is a slot, at most 16 MiB. */
#ifndef DGEMM_OOC_EXCHANGE_H
#define DGEMM_OOC_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "meter.h"
#include "schedule.h"

struct cache;
struct comm;
struct error;
struct intake;
struct message; /* on its way */
struct trace;

struct exchange {
    struct comm *comm;
    struct intake *in;
    struct cache *cache;
    struct trace *trace;
    struct cursor cursor;
    struct message *messages; /* a ring, in order */
    int64_t posted, done;     /* of them */
    int64_t *sent, *received; /* messages posted so far, to and from each rank */
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

#endif
