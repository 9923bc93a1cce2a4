#include "nodes.h"

#include <string.h>
#include <unistd.h>

#include "comm.h"
#include "comm_impl.h"
#include "error.h"
#include "meter.h"
#include "window.h"

static int greatest_divisor(int a, int b)
{
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void divide(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] = greatest_divisor(((int *)in)[i], ((int *)inout)[i]);
}

/* The largest size of groups none of which lies on two computers: it divides the ranks of all but
 * the last, whose last group may be smaller. */
static int common_size(const struct comm *comm)
{
    MPI_Op op;
    bool last = comm->rank - comm->local_rank + comm->local_size == comm->size;
    int size = last ? 0 : comm->local_size;
    MPI_Op_create(divide, 1, &op);
    MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_INT, op, comm->links->all);
    MPI_Op_free(&op);
    return size;
}

/* Whether the ranks of all groups can share memory. */
static bool can_share(const struct comm *comm)
{
    struct window window;
    struct error ignored = {0};
    uint64_t word = (uint64_t)getpid() << 32 | (uint64_t)(clock_now() * 1e6), found = 0;
    int mine = window_open(&window, comm, sizeof word, &ignored) == 0, everyone;
    if (mine && comm->node_rank == 0)
        memcpy(window.memory, &word, sizeof word);
    comm_node_share(comm, &word, sizeof word, 0);
    if (mine) /* it may be another file, where processes are numbered in several spaces */
        memcpy(&found, window.memory, sizeof found);
    mine = mine && found == word;
    window_close(&window);
    MPI_Allreduce(&mine, &everyone, 1, MPI_INT, MPI_MIN, comm->links->all);
    return everyone;
}

int nodes_form(struct comm *comm, struct error *err)
{
    int provided;
    if (comm->size == 1)
        return err->code;
    comm_group(comm, comm->computers > 1 ? common_size(comm) : comm->local_size);
    if (!can_share(comm))
        comm_group(comm, 1);
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_SERIALIZED && comm->nodes > 1)
        error_add(err, EXIT_RESOURCES,
                  "this MPI lacks MPI_THREAD_SERIALIZED, which runs on several nodes need");
    return comm_agree(comm, err);
}
