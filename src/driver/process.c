#include "process.h"

#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm.h"
#include "comm_impl.h"
#include "error.h"
#include "file.h"
#include "format.h"
#include "launcher.h"
#include "leftovers.h"
#include "lock.h"
#include "nodes.h"
#include "rlimits.h"
#include "stop.h"
#include "watch.h"

enum { ABORT_SECONDS = 3 };

int process_begin(struct error *err)
{
    file_fill_streams();
    format_own_process();
    /* What a phase frees goes back to the system, or the next phase's memory would come on top.  By
     * default this threshold grows with what is freed. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    signal(SIGPIPE, SIG_IGN); /* and so is a log that nobody reads, at the end */
    return rlimits_raise(err);
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

/* MPICH takes SIGUSR1 for itself.  What the caller does at that signal stays, and one that comes
 * meanwhile waits.  Ranks of one computer need none of the networks that Open MPI looks for, which
 * takes longer than a small product; what the user has set stays. */
static void start_mpi(void)
{
    struct sigaction callers;
    sigset_t taken, before;
    int provided;
    if (launcher_is_on_one_computer())
        setenv("OMPI_MCA_pml", "ob1", 0);
    sigemptyset(&taken);
    sigaddset(&taken, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &taken, &before);
    sigaction(SIGUSR1, NULL, &callers);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    sigaction(SIGUSR1, &callers, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool process_has_mpi(void)
{
    int started, ended;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    return started && !ended;
}

static volatile sig_atomic_t guarded; /* that this process ends is not expected */

static void clean_up(void)
{
    static const char words[] =
        "dgemm_ooc: a library has ended this process, most likely since it can have no more "
        "threads or memory; see ulimit -u and -v, and a container's limits, or lower "
        "OMP_NUM_THREADS and --host-memory\n";
    leftovers_remove();
    lock_abandon();
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
}

static void end(void)
{
    if (!guarded)
        return;
    clean_up();
    _exit(EXIT_RESOURCES);
}

static void end_aborted(int number)
{
    if (guarded)
        clean_up();
    signal(number, SIG_DFL);
    raise(number);
}

static void guard(void)
{
    guarded = true;
    atexit(end);
    signal(SIGABRT, end_aborted);
}

/* The only way in which anything but main ends this process. */
static void __attribute__((noreturn)) end_all(int code)
{
    guarded = false;
    alarm(ABORT_SECONDS); /* in case another thread holds what this needs */
    if (process_has_mpi())
        MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

int process_join(struct comm *comm, struct error *err)
{
    /* Asked before MPI_Init_thread, after which the environment says what MPI thinks. */
    const int launched = launcher_size(), task = launcher_rank(), cpus = launcher_cpus();
    stop_listen();
    guard();
    if (launcher_ends_mpi() && launched > 1)
        return refuse_singletons(comm, task, launched, err);
    if (launcher_needs_no_mpi()) {
        comm_open_alone(comm, end_all);
    } else {
        start_mpi();
        comm_open(comm, MPI_COMM_WORLD, end_all);
    }
    comm->cpus = cpus;
    if (comm->size == 1 && launched > 1)
        return refuse_singletons(comm, task, launched, err);
    if (nodes_form(comm, err) == 0)
        watch_begin(comm);
    return err->code;
}

void process_leave(struct comm *comm)
{
    if (comm->links) {
        comm_barrier(comm);
        watch_end();
        comm_barrier(comm); /* nobody leaves while another still watches */
        comm_close(comm);
    }
    if (process_has_mpi()) {
        MPI_Barrier(MPI_COMM_WORLD); /* or MPICH over UCX may end one rank while another needs it */
        MPI_Finalize();
    }
    guarded = false;
}
