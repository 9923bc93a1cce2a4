#include "comm.h"
#include "comm_impl.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "computer.h"
#include "error.h"
#include "launcher.h"
#include "leftovers.h"
#include "phase.h"
#include "waits.h"

enum {
    ABORT_SECONDS = 3,
    SUM_MAX = 1 << 20, /* numbers of one reduction */
};

/* In the program's order: all ranks, those of a computer, of a node.  Votes have a communicator
 * of their own, since a rank that raises takes no part in them. */
static MPI_Comm all = MPI_COMM_NULL, computer = MPI_COMM_NULL, group = MPI_COMM_NULL,
                votes = MPI_COMM_NULL, panels = MPI_COMM_NULL;

/* The newest vote; one that was given up may still write here. */
static struct {
    MPI_Request request;
    uint64_t numbers[VOTE_MAX]; /* or doubles */
} vote = {.request = MPI_REQUEST_NULL};

static atomic_bool has_failed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

MPI_Comm comm_world(void)
{
    return all;
}

MPI_Comm comm_panels(void)
{
    return panels;
}

void comm_lock(void)
{
    pthread_mutex_lock(&lock);
}

void comm_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Number the ranks computer by computer, in the order of their lowest ranks. */
static void order_ranks(struct comm *comm)
{
    MPI_Comm alike;
    int lowest;
    uint64_t identity = computer_number();
    MPI_Comm_rank(MPI_COMM_WORLD, &lowest);
    MPI_Comm_split(MPI_COMM_WORLD, (int)(identity >> 32 & INT_MAX), lowest, &alike);
    MPI_Comm_split(alike, (int)(identity & INT_MAX), lowest, &computer);
    MPI_Comm_free(&alike);
    MPI_Comm_rank(computer, &comm->local_rank);
    MPI_Comm_size(computer, &comm->local_size);
    MPI_Bcast(&lowest, 1, MPI_INT, 0, computer);
    MPI_Comm_split(MPI_COMM_WORLD, 0, lowest, &all); /* of one computer in the MPI's order */
    MPI_Comm_rank(all, &comm->rank);
    MPI_Comm_size(all, &comm->size);
    MPI_Comm_dup(all, &votes);
    MPI_Comm_dup(all, &panels);
}

void comm_group(struct comm *comm, int size)
{
    if (group != MPI_COMM_NULL)
        MPI_Comm_free(&group);
    comm->node = comm->rank / size;
    comm->nodes = (comm->size + size - 1) / size;
    MPI_Comm_split(all, comm->node, comm->rank, &group);
    MPI_Comm_rank(group, &comm->node_rank);
    MPI_Comm_size(group, &comm->node_size);
}

void comm_form_layers(struct comm *comm, int layers, int ranks_per_node)
{
    comm->peers = comm->size / layers;
    comm->layer = comm->rank / comm->peers;
    comm->first = comm->layer * comm->peers;
    if (layers == 1)
        return;
    comm_group(comm, ranks_per_node);
    comm->node -= comm->first / ranks_per_node;
    comm->nodes = (comm->peers + ranks_per_node - 1) / ranks_per_node;
}

/* Each task for itself; only one of them speaks. */
static int refuse_singletons(struct comm *comm, int rank, int tasks, struct error *err)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING], name[64];
    int length;
    comm->rank = rank;
    comm->size = 1;
    MPI_Get_library_version(library, &length);
    launcher_name_mpi(library, name, sizeof name);
    return error_add(err, EXIT_RESOURCES,
                     "the launcher started %d tasks, but MPI (%s) sees each as a run of 1 rank; "
                     "use the mpirun of that MPI or, with Slurm, %s; to run one rank inside a "
                     "task, unset the launcher's variables",
                     tasks, name, launcher_srun(library));
}

/* Ranks of one computer need none of the networks that Open MPI looks for when it starts, and a
 * rank that is alone no daemon that could start others.  Both take longer than a small product.
 * Nor does that rank need a folder for files of Open MPI, which all such ranks of a user would
 * share.  What the user has set stays. */
static void start_without_networks(void)
{
    if (launcher_is_absent()) {
        setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
        setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
        setenv("OMPI_MCA_btl", "self", 0);
    }
    if (launcher_is_absent() || launcher_is_on_one_computer())
        setenv("OMPI_MCA_pml", "ob1", 0);
}

/* MPICH takes SIGUSR1 for itself and, without a launcher, hangs when it comes.  What the caller
 * does at that signal stays, and one that comes meanwhile waits. */
static void start_mpi(void)
{
    struct sigaction callers;
    sigset_t taken, before;
    int provided;
    sigemptyset(&taken);
    sigaddset(&taken, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &taken, &before);
    sigaction(SIGUSR1, NULL, &callers);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    sigaction(SIGUSR1, &callers, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int comm_open(struct comm *comm, struct error *err)
{
    /* Asked before MPI_Init_thread, after which the environment says what MPI thinks. */
    int launched = launcher_size(), task = launcher_rank();
    *comm = (struct comm){0};
    if (launcher_ends_mpi()) {
        if (launched > 1)
            return refuse_singletons(comm, task, launched, err);
        unsetenv("SLURM_STEP_ID"); /* or MPI looks for other tasks, and ends the process */
    }
    start_without_networks();
    comm_open_parameters();
    start_mpi();
    comm_read_parameters();
    order_ranks(comm);
    comm->computers = comm->local_rank == 0;
    MPI_Allreduce(MPI_IN_PLACE, &comm->computers, 1, MPI_INT, MPI_SUM, all);
    comm_group(comm, 1);
    if (comm->size == 1 && launched > 1)
        return refuse_singletons(comm, task, launched, err);
    return 0;
}

void comm_close(void)
{
    if (group != MPI_COMM_NULL)
        MPI_Comm_free(&group);
    if (computer != MPI_COMM_NULL)
        MPI_Comm_free(&computer);
    if (all == MPI_COMM_NULL)
        return;
    MPI_Comm_free(&panels); /* not `votes`: one that was given up may be pending there */
    MPI_Comm_free(&all);
    MPI_Barrier(MPI_COMM_WORLD); /* or MPICH over UCX may end one rank while another needs it */
    MPI_Finalize();
}

static bool is_complete(MPI_Request *request)
{
    int done;
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
    comm_lock();
    MPI_Ibcast(data, (int)bytes, MPI_BYTE, root, ranks, &request);
    complete(&request);
}

void comm_share(void *data, size_t bytes, int root)
{
    wait_begin(WAIT_FOR_RANKS);
    share(data, bytes, root, all);
    wait_end();
}

/* Of those ranks, in place. */
static void reduce_ranks(void *numbers, int count, MPI_Datatype type, MPI_Op how, MPI_Comm ranks)
{
    MPI_Request request;
    comm_lock();
    MPI_Iallreduce(MPI_IN_PLACE, numbers, count, type, how, ranks, &request);
    complete(&request);
}

/* Of all ranks, in place. */
static void reduce(void *numbers, int count, MPI_Datatype type, MPI_Op how)
{
    wait_begin(WAIT_FOR_RANKS);
    reduce_ranks(numbers, count, type, how, all);
    wait_end();
}

static bool others_have_raised(void)
{
    int waiting = 0;
    comm_lock();
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_RAISE, all, &waiting, MPI_STATUS_IGNORE);
    comm_unlock();
    return waiting;
}

void comm_raise(struct comm *comm)
{
    if (comm->raised || others_have_raised()) /* who raises tells everyone */
        return;
    comm->raised = true;
    for (int rank = 0; rank < comm->size; rank++) {
        MPI_Request request;
        if (rank == comm->rank)
            continue;
        comm_lock();
        MPI_Isend(NULL, 0, MPI_BYTE, rank, TAG_RAISE, all, &request);
        MPI_Request_free(&request);
        comm_unlock();
    }
}

bool comm_raised(const struct comm *comm)
{
    return others_have_raised() || comm->raised || atomic_load(&has_failed);
}

void comm_fail(void)
{
    atomic_store(&has_failed, true);
}

/* Take the messages of comm_raise out of the way, so that none is pending at the end.  How many
 * ranks had raised. */
static int receive_raises(struct comm *comm)
{
    int raisers = comm->raised;
    reduce(&raisers, 1, MPI_INT, MPI_SUM);
    for (int i = comm->raised; i < raisers; i++)
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG_RAISE, all, MPI_STATUS_IGNORE);
    comm->raised = false;
    return raisers;
}

int comm_agree(struct comm *comm, struct error *err)
{
    /* First those who have a complaint; after them those who only know that somebody has. */
    int lowest = err->code > 0 ? comm->rank : comm->size + comm->rank, failed = err->code > 0;
    if (!err->code)
        lowest = 2 * comm->size;
    reduce(&lowest, 1, MPI_INT, MPI_MIN);
    reduce(&failed, 1, MPI_INT, MPI_SUM);
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
    comm_share(err, sizeof *err, speaker);
    return err->code;
}

void comm_abort(int code)
{
    leftovers_unguard();
    alarm(ABORT_SECONDS); /* in case another thread holds what this needs */
    MPI_Abort(all, code);
    _exit(code);
}

void comm_no_memory(const char *what)
{
    int rank;
    MPI_Comm_rank(all, &rank);
    phase_hide();
    fprintf(stderr, "dgemm_ooc: rank %d has no memory for %s\n", rank, what);
    comm_abort(EXIT_RESOURCES);
}

/* Start to reduce numbers of 64 bits. */
static void start_vote(const void *numbers, int count, MPI_Datatype type, MPI_Op how)
{
    memcpy(vote.numbers, numbers, (size_t)count * sizeof *vote.numbers);
    comm_lock();
    MPI_Iallreduce(MPI_IN_PLACE, vote.numbers, count, type, how, votes, &vote.request);
    comm_unlock();
}

/* Wait for the vote as long as no rank raises. */
static bool end_vote(const struct comm *comm, void *numbers, int count)
{
    bool done = false;
    wait_begin(WAIT_FOR_RANKS);
    for (int looks = 1; !done && !(looks % LOOKS == 0 && comm_raised(comm)); looks++) {
        done = is_complete(&vote.request);
        if (!done)
            comm_nap();
    }
    wait_end();
    if (done)
        memcpy(numbers, vote.numbers, (size_t)count * sizeof *vote.numbers);
    return done;
}

void comm_vote_begin(const double *sums, int count)
{
    start_vote(sums, count, MPI_DOUBLE, MPI_SUM);
}

bool comm_vote_end(const struct comm *comm, double *sums, int count)
{
    return end_vote(comm, sums, count);
}

bool comm_vote_sum(const struct comm *comm, uint64_t *numbers, int count)
{
    start_vote(numbers, count, MPI_UINT64_T, MPI_SUM);
    return end_vote(comm, numbers, count);
}

bool comm_vote_most(const struct comm *comm, double *numbers, int count)
{
    start_vote(numbers, count, MPI_DOUBLE, MPI_MAX);
    return end_vote(comm, numbers, count);
}

void comm_barrier(void)
{
    MPI_Request request;
    if (all == MPI_COMM_NULL)
        return;
    wait_begin(WAIT_FOR_RANKS);
    comm_lock();
    MPI_Ibarrier(all, &request);
    complete(&request);
    wait_end();
}

uint64_t comm_min(uint64_t value)
{
    /* Signed: as such some versions of MPICH and Open MPI compare also what has no sign. */
    int64_t least = value < INT64_MAX ? (int64_t)value : INT64_MAX;
    reduce(&least, 1, MPI_INT64_T, MPI_MIN);
    return (uint64_t)least;
}

uint64_t comm_sum(uint64_t value)
{
    reduce(&value, 1, MPI_UINT64_T, MPI_SUM);
    return value;
}

static void reduce_vector(double *vector, int64_t count, MPI_Op how)
{
    for (int64_t done = 0; done < count; done += SUM_MAX) {
        int64_t rest = count - done;
        reduce(vector + done, (int)(rest < SUM_MAX ? rest : SUM_MAX), MPI_DOUBLE, how);
    }
}

void comm_sum_vector(double *vector, int64_t count)
{
    reduce_vector(vector, count, MPI_SUM);
}

void comm_most_vector(double *vector, int64_t count)
{
    reduce_vector(vector, count, MPI_MAX);
}

void comm_node_share(const struct comm *comm, void *data, size_t bytes, int from)
{
    if (comm->node_size > 1)
        share(data, bytes, from, group);
}

bool comm_node_all(const struct comm *comm, bool mine)
{
    int every = mine;
    if (comm->node_size > 1)
        reduce_ranks(&every, 1, MPI_INT, MPI_MIN, group);
    return every;
}

void *comm_local_gather(const struct comm *comm, const void *mine, size_t bytes)
{
    MPI_Request request;
    void *everyones = malloc((size_t)comm->local_size * bytes);
    if (!everyones)
        comm_no_memory("what others tell it");
    comm_lock();
    MPI_Iallgather(mine, (int)bytes, MPI_BYTE, everyones, (int)bytes, MPI_BYTE, computer, &request);
    complete(&request);
    return everyones;
}

void comm_send(const void *data, size_t bytes, int to)
{
    MPI_Request request;
    wait_begin_rank(to);
    comm_lock();
    MPI_Isend(data, (int)bytes, MPI_BYTE, to, TAG_DATA, all, &request);
    complete(&request);
    wait_end();
}

void comm_receive(void *data, size_t bytes, int from)
{
    MPI_Request request;
    wait_begin_rank(from);
    comm_lock();
    MPI_Irecv(data, (int)bytes, MPI_BYTE, from, TAG_DATA, all, &request);
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
