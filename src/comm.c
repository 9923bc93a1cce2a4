#include "comm.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { TAG_RAISE = 1, TAG_DATA };

static int launcher_number(const char *const *names, int otherwise)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value)
            return atoi(value);
    }
    return otherwise;
}

int comm_launcher_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",    "PMI_RANK",
                                        "PALS_RANKID",          "ALPS_APP_PE",  "FLUX_TASK_RANK",
                                        "JSM_NAMESPACE_RANK",   "SLURM_PROCID", NULL};
    return launcher_number(names, 0);
}

int comm_launcher_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "JSM_NAMESPACE_SIZE",   "FLUX_JOB_SIZE",
                                        "SLURM_STEP_NUM_TASKS", NULL};
    return launcher_number(names, 1);
}

int comm_open(struct comm *comm, struct error *err)
{
    /* Asked before MPI_Init_thread, after which the environment says what MPI thinks. */
    int provided, launched = comm_launcher_size(), launcher_rank = comm_launcher_rank();
    MPI_Comm node;
    *comm = (struct comm){0};
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &comm->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &comm->size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &comm->local_rank);
    MPI_Comm_size(node, &comm->local_size);
    MPI_Comm_free(&node);
    int leads = comm->local_rank == 0;
    MPI_Allreduce(&leads, &comm->nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (comm->size == 1 && launched > 1) {
        comm->rank = launcher_rank; /* so that only one of them speaks */
        return error_add(
            err, EXIT_RESOURCES,
            "the launcher started %d tasks but MPI sees 1 rank in each; with Slurm try "
            "srun --mpi=pmix",
            launched);
    }
    return 0;
}

void comm_close(void)
{
    MPI_Finalize();
}

void comm_share(void *data, size_t bytes, int root)
{
    MPI_Bcast(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

void comm_raise(struct comm *comm)
{
    if (comm->raised)
        return;
    comm->raised = true;
    for (int rank = 0; rank < comm->size; rank++) {
        MPI_Request request;
        if (rank == comm->rank)
            continue;
        MPI_Isend(NULL, 0, MPI_BYTE, rank, TAG_RAISE, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
}

bool comm_raised(const struct comm *comm)
{
    int waiting = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_RAISE, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE);
    return waiting || comm->raised;
}

/* Take the messages of comm_raise out of the way, so that none is pending at the end. */
static void settle_raised(struct comm *comm)
{
    int raised = comm->raised, all;
    MPI_Allreduce(&raised, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = raised; i < all; i++)
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG_RAISE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    comm->raised = false;
}

int comm_agree(struct comm *comm, struct error *err)
{
    int first = err->code ? comm->rank : comm->size, failing = err->code != 0, lowest, all;
    MPI_Allreduce(&first, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&failing, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    settle_raised(comm);
    if (lowest == comm->size)
        return 0;
    if (comm->rank == lowest && lowest > 0) {
        char host[MPI_MAX_PROCESSOR_NAME];
        int length;
        MPI_Get_processor_name(host, &length);
        error_add(err, err->code, "on rank %d (%s)%s", comm->rank, host,
                  all > 1 ? ", and on others" : "");
    }
    MPI_Bcast(err, sizeof *err, MPI_BYTE, lowest, MPI_COMM_WORLD);
    return err->code;
}

void comm_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

uint64_t comm_min(uint64_t value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return value;
}

void comm_statistics(const double *values, int count, double *least, double *sum, double *most)
{
    MPI_Allreduce(values, least, count, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(values, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(values, most, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

void comm_send(const void *data, size_t bytes, int to)
{
    MPI_Send(data, (int)bytes, MPI_BYTE, to, TAG_DATA, MPI_COMM_WORLD);
}

void comm_receive(void *data, size_t bytes, int from)
{
    MPI_Recv(data, (int)bytes, MPI_BYTE, from, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void comm_version(char *text, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    snprintf(text, size, "%.*s", (int)strcspn(version, ",\n"), version);
}
