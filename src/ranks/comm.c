#include "comm.h"
#include "comm_impl.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "launcher.h"
#include "notice.h"
#include "proc.h"
#include "waits.h"

enum {
    SUM_MAX = 1 << 20, /* numbers of one reduction */
};

/* MPI's, which a process has once. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void comm_lock(void)
{
    pthread_mutex_lock(&lock);
}

void comm_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static bool is_alone(const struct comm *comm)
{
    return comm->links->all == MPI_COMM_NULL;
}

/* Number the ranks computer by computer, in the order of their lowest ranks. */
static void order_ranks(struct comm *comm, MPI_Comm ranks)
{
    struct comm_links *links = comm->links;
    MPI_Comm alike;
    int lowest;
    uint64_t identity = computer_number();
    MPI_Comm_rank(ranks, &lowest);
    MPI_Comm_split(ranks, (int)(identity >> 32 & INT_MAX), lowest, &alike);
    MPI_Comm_split(alike, (int)(identity & INT_MAX), lowest, &links->computer);
    MPI_Comm_free(&alike);
    MPI_Comm_rank(links->computer, &comm->local_rank);
    MPI_Comm_size(links->computer, &comm->local_size);
    MPI_Bcast(&lowest, 1, MPI_INT, 0, links->computer);
    MPI_Comm_split(ranks, 0, lowest, &links->all); /* of one computer in the order of `ranks` */
    MPI_Comm_rank(links->all, &comm->rank);
    MPI_Comm_size(links->all, &comm->size);
    MPI_Comm_dup(links->all, &links->votes);
    MPI_Comm_dup(links->all, &links->panels);
    comm->computers = comm->local_rank == 0;
    MPI_Allreduce(MPI_IN_PLACE, &comm->computers, 1, MPI_INT, MPI_SUM, links->all);
}

void comm_group(struct comm *comm, int size)
{
    struct comm_links *links = comm->links;
    if (links->node != MPI_COMM_NULL)
        MPI_Comm_free(&links->node);
    comm->node = comm->rank / size;
    comm->nodes = (comm->size + size - 1) / size;
    comm->node_rank = 0;
    comm->node_size = 1;
    if (is_alone(comm))
        return;
    MPI_Comm_split(links->all, comm->node, comm->rank, &links->node);
    MPI_Comm_rank(links->node, &comm->node_rank);
    MPI_Comm_size(links->node, &comm->node_size);
}

void comm_form_layers(struct comm *comm, int layers, int ranks_per_node)
{
    const bool formed = comm->peers > 0 && comm->peers < comm->size;
    comm->peers = comm->size / layers;
    comm->layer = comm->rank / comm->peers < layers ? comm->rank / comm->peers : layers - 1;
    comm->first = comm->layer * comm->peers;
    if (layers == 1 && !formed)
        return;
    comm_group(comm, ranks_per_node);
    comm->node -= comm->first / ranks_per_node;
    comm->nodes = (comm->peers + ranks_per_node - 1) / ranks_per_node;
}

/* Without communicators. */
static void begin(struct comm *comm, comm_ending end)
{
    *comm = (struct comm){.links = malloc(sizeof *comm->links)};
    if (!comm->links) {
        notice("no memory is left to start the ranks");
        end(EXIT_RESOURCES);
    }
    *comm->links = (struct comm_links){.all = MPI_COMM_NULL,
                                       .computer = MPI_COMM_NULL,
                                       .node = MPI_COMM_NULL,
                                       .votes = MPI_COMM_NULL,
                                       .panels = MPI_COMM_NULL,
                                       .vote.request = MPI_REQUEST_NULL,
                                       .end = end};
}

void comm_open_alone(struct comm *comm, comm_ending end)
{
    begin(comm, end);
    comm->size = comm->local_size = comm->computers = 1;
    comm_group(comm, 1);
}

void comm_open(struct comm *comm, MPI_Comm ranks, comm_ending end)
{
    begin(comm, end);
    order_ranks(comm, ranks);
    comm_group(comm, 1);
}

void comm_close(struct comm *comm)
{
    struct comm_links *links = comm->links;
    if (!is_alone(comm)) {
        MPI_Comm_free(&links->node);
        MPI_Comm_free(&links->computer);
        MPI_Comm_free(&links->panels);
        MPI_Comm_free(&links->all);
        if (links->vote.request != MPI_REQUEST_NULL) /* given up: MPI may still write to it */
            return;
        MPI_Comm_free(&links->votes);
    }
    free(links);
    comm->links = NULL;
}

static bool is_complete(MPI_Request *request)
{
    int done;
    if (*request == MPI_REQUEST_NULL)
        return true;
    comm_lock();
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    comm_unlock();
    return done;
}

void comm_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* Wait for an operation that was started with the lock held, which this gives back.  MPI's own
 * waiting keeps a CPU busy that this program's other threads, or other ranks, may need. */
static void complete(MPI_Request *request)
{
    comm_unlock();
    while (!is_complete(request))
        comm_nap();
}

static void share(void *data, size_t bytes, int root, MPI_Comm ranks)
{
    MPI_Request request;
    if (ranks == MPI_COMM_NULL)
        return;
    comm_lock();
    MPI_Ibcast(data, (int)bytes, MPI_BYTE, root, ranks, &request);
    complete(&request);
}

void comm_share(const struct comm *comm, void *data, size_t bytes, int root)
{
    wait_begin(WAIT_FOR_RANKS);
    share(data, bytes, root, comm->links->all);
    wait_end();
}

/* Of those ranks, in place. */
static void reduce_ranks(void *numbers, int count, MPI_Datatype type, MPI_Op how, MPI_Comm ranks)
{
    MPI_Request request;
    if (ranks == MPI_COMM_NULL)
        return;
    comm_lock();
    MPI_Iallreduce(MPI_IN_PLACE, numbers, count, type, how, ranks, &request);
    complete(&request);
}

/* Of all ranks, in place. */
static void reduce(const struct comm *comm, void *numbers, int count, MPI_Datatype type, MPI_Op how)
{
    wait_begin(WAIT_FOR_RANKS);
    reduce_ranks(numbers, count, type, how, comm->links->all);
    wait_end();
}

static bool others_have_raised(const struct comm *comm)
{
    int waiting = 0;
    if (is_alone(comm))
        return false;
    comm_lock();
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_RAISE, comm->links->all, &waiting, MPI_STATUS_IGNORE);
    comm_unlock();
    return waiting;
}

void comm_raise(struct comm *comm)
{
    if (comm->raised || others_have_raised(comm)) /* who raises tells everyone */
        return;
    comm->raised = true;
    for (int rank = 0; rank < comm->size; rank++) {
        MPI_Request request;
        if (rank == comm->rank)
            continue;
        comm_lock();
        MPI_Isend(NULL, 0, MPI_BYTE, rank, TAG_RAISE, comm->links->all, &request);
        MPI_Request_free(&request);
        comm_unlock();
    }
}

bool comm_raised(const struct comm *comm)
{
    return others_have_raised(comm) || comm->raised || atomic_load(&comm->links->has_failed);
}

void comm_fail(const struct comm *comm)
{
    atomic_store(&comm->links->has_failed, true);
}

/* Take the messages of comm_raise out of the way, so that none is pending at the end.  How many
 * ranks had raised. */
static int receive_raises(struct comm *comm)
{
    int raisers = comm->raised;
    reduce(comm, &raisers, 1, MPI_INT, MPI_SUM);
    for (int i = comm->raised; i < raisers; i++)
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG_RAISE, comm->links->all, MPI_STATUS_IGNORE);
    comm->raised = false;
    return raisers;
}

int comm_agree(struct comm *comm, struct error *err)
{
    /* First those who have a complaint; after them those who only know that somebody has. */
    int lowest = err->code > 0 ? comm->rank : comm->size + comm->rank, failed = err->code > 0;
    if (!err->code)
        lowest = 2 * comm->size;
    reduce(comm, &lowest, 1, MPI_INT, MPI_MIN);
    reduce(comm, &failed, 1, MPI_INT, MPI_SUM);
    int raisers = receive_raises(comm);
    if (lowest == 2 * comm->size)
        return 0;
    int speaker = lowest % comm->size;
    if (comm->rank == speaker && lowest >= comm->size) {
        *err = (struct error){0};
        error_add(err, EXIT_RUNTIME, "internal error: a rank ended the run without a message");
    } else if (comm->rank == speaker && err->code != EXIT_STOPPED &&
               (speaker > 0 || (raisers > 0 && comm->size > 1))) {
        char host[MPI_MAX_PROCESSOR_NAME];
        int length;
        MPI_Get_processor_name(host, &length);
        error_add(err, err->code, "on rank %d (%s)%s", comm->rank, host,
                  failed > 1 ? ", and on others" : "");
    }
    comm_share(comm, err, sizeof *err, speaker);
    return err->code;
}

void comm_abort(const struct comm *comm, int code)
{
    comm->links->end(code);
}

void comm_no_memory(const struct comm *comm, const char *what)
{
    notice("rank %d has no memory for %s", comm->rank, what);
    comm_abort(comm, EXIT_RESOURCES);
}

/* Start to reduce numbers of 64 bits. */
static void start_vote(const struct comm *comm, const void *numbers, int count, MPI_Datatype type,
                       MPI_Op how)
{
    struct comm_links *links = comm->links;
    memcpy(links->vote.numbers, numbers, (size_t)count * sizeof *links->vote.numbers);
    if (is_alone(comm))
        return;
    comm_lock();
    MPI_Iallreduce(MPI_IN_PLACE, links->vote.numbers, count, type, how, links->votes,
                   &links->vote.request);
    comm_unlock();
}

/* Wait for the vote as long as no rank raises. */
static bool end_vote(const struct comm *comm, void *numbers, int count)
{
    struct comm_links *links = comm->links;
    bool done = false;
    wait_begin(WAIT_FOR_RANKS);
    for (int looks = 1; !done && !(looks % LOOKS == 0 && comm_raised(comm)); looks++) {
        done = is_complete(&links->vote.request);
        if (!done)
            comm_nap();
    }
    wait_end();
    if (done)
        memcpy(numbers, links->vote.numbers, (size_t)count * sizeof *links->vote.numbers);
    return done;
}

void comm_vote_begin(const struct comm *comm, const double *sums, int count)
{
    start_vote(comm, sums, count, MPI_DOUBLE, MPI_SUM);
}

bool comm_vote_end(const struct comm *comm, double *sums, int count)
{
    return end_vote(comm, sums, count);
}

bool comm_vote_sum(const struct comm *comm, uint64_t *numbers, int count)
{
    start_vote(comm, numbers, count, MPI_UINT64_T, MPI_SUM);
    return end_vote(comm, numbers, count);
}

bool comm_vote_most(const struct comm *comm, double *numbers, int count)
{
    start_vote(comm, numbers, count, MPI_DOUBLE, MPI_MAX);
    return end_vote(comm, numbers, count);
}

void comm_barrier(const struct comm *comm)
{
    MPI_Request request;
    if (is_alone(comm))
        return;
    wait_begin(WAIT_FOR_RANKS);
    comm_lock();
    MPI_Ibarrier(comm->links->all, &request);
    complete(&request);
    wait_end();
}

uint64_t comm_min(const struct comm *comm, uint64_t value)
{
    /* Signed: as such some versions of MPICH and Open MPI compare also what has no sign. */
    int64_t least = value < INT64_MAX ? (int64_t)value : INT64_MAX;
    reduce(comm, &least, 1, MPI_INT64_T, MPI_MIN);
    return (uint64_t)least;
}

uint64_t comm_sum(const struct comm *comm, uint64_t value)
{
    reduce(comm, &value, 1, MPI_UINT64_T, MPI_SUM);
    return value;
}

static void reduce_vector(const struct comm *comm, double *vector, int64_t count, MPI_Op how)
{
    for (int64_t done = 0; done < count; done += SUM_MAX) {
        int64_t rest = count - done;
        reduce(comm, vector + done, (int)(rest < SUM_MAX ? rest : SUM_MAX), MPI_DOUBLE, how);
    }
}

void comm_sum_vector(const struct comm *comm, double *vector, int64_t count)
{
    reduce_vector(comm, vector, count, MPI_SUM);
}

void comm_most_vector(const struct comm *comm, double *vector, int64_t count)
{
    reduce_vector(comm, vector, count, MPI_MAX);
}

void comm_node_share(const struct comm *comm, void *data, size_t bytes, int from)
{
    if (comm->node_size > 1)
        share(data, bytes, from, comm->links->node);
}

bool comm_node_all(const struct comm *comm, bool mine)
{
    int every = mine;
    if (comm->node_size > 1)
        reduce_ranks(&every, 1, MPI_INT, MPI_MIN, comm->links->node);
    return every;
}

void *comm_local_gather(const struct comm *comm, const void *mine, size_t bytes)
{
    MPI_Request request;
    void *everyones = malloc((size_t)comm->local_size * bytes);
    if (!everyones)
        comm_no_memory(comm, "what others tell it");
    if (is_alone(comm))
        return memcpy(everyones, mine, bytes);
    comm_lock();
    MPI_Iallgather(mine, (int)bytes, MPI_BYTE, everyones, (int)bytes, MPI_BYTE,
                   comm->links->computer, &request);
    complete(&request);
    return everyones;
}

void comm_send(const struct comm *comm, const void *data, size_t bytes, int to)
{
    MPI_Request request;
    wait_begin_rank(to);
    comm_lock();
    MPI_Isend(data, (int)bytes, MPI_BYTE, to, TAG_DATA, comm->links->all, &request);
    complete(&request);
    wait_end();
}

void comm_receive(const struct comm *comm, void *data, size_t bytes, int from)
{
    MPI_Request request;
    wait_begin_rank(from);
    comm_lock();
    MPI_Irecv(data, (int)bytes, MPI_BYTE, from, TAG_DATA, comm->links->all, &request);
    complete(&request);
    wait_end();
}
void comm_version(char *text, size_t size)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    launcher_name_mpi(library, text, size);
}
