/* The ranks, and what they decide together.  This folder and the exchange between nodes
 * (exchange.h) are the only users of MPI.  Only the main thread calls these functions, but for
 * comm_raised, comm_fail, comm_abort and comm_no_memory, which any thread may call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

struct comm {
    int rank, size;
    int computers;
    int local_rank, local_size; /* on this computer */
    int nodes, node;            /* groups of ranks that share memory; this rank's group */
    int node_rank, node_size;   /* within it; the last node may have fewer ranks */
    int layer, first, peers;    /* this rank's layer (layers.h), its first rank, and its size */
    int cpus;                   /* of this computer, for the job itself (launcher_cpus) */
    bool raised;                /* this rank has told the others that it failed */
    struct comm_links *links;   /* its communicators (comm_impl.h); null: not open */
};

/* Collective, as comm_open in comm_impl.h is. */
void comm_close(struct comm *comm);

/* Collective.  Form layers of equally many consecutive ranks, with nodes of so many ranks; from
 * then on `nodes` and `node` count within the layer.  Ranks that are left over belong to the last
 * layer, beyond its `peers`.  With one layer the nodes are as they were. */
void comm_form_layers(struct comm *comm, int layers, int ranks_per_node);

/* The number of this rank in its layer's grid. */
static inline int comm_place(const struct comm *comm)
{
    return comm->rank - comm->first;
}

/* Collective.  Send `bytes` of plain data from `root` to all. */
void comm_share(const struct comm *comm, void *data, size_t bytes, int root);

/* Collective.  All ranks return with the code and the complaint of the lowest rank that failed, or
 * 0 when none did.  The complaint names that rank, but for a stop, and rank 0 only where it had
 * raised.  ERROR_ELSEWHERE, an error of another rank, counts as a failure. */
int comm_agree(struct comm *comm, struct error *err);

/* Between agreements: tell the other ranks that this one has failed, unless another one has said so
 * before; and whether a rank has failed.  The next comm_agree ends that state. */
void comm_raise(struct comm *comm);
bool comm_raised(const struct comm *comm);

/* This rank cannot continue.  comm_raised is true on it from now on, so that its main thread
 * raises, whatever it waits for.  Any thread. */
void comm_fail(const struct comm *comm);

/* Collective; may be called while the exchange between nodes runs.  comm_vote_begin starts to add
 * up to VOTE_MAX numbers over all ranks, and comm_vote_end waits for the sums.  comm_vote_sum adds
 * up numbers modulo 2^64, comm_vote_most takes the largest, in one call.  False, with no result,
 * when a rank has raised; there must be no other vote then. */
enum { VOTE_MAX = 96 };
void comm_vote_begin(const struct comm *comm, const double *sums, int count);
bool comm_vote_end(const struct comm *comm, double *sums, int count);
bool comm_vote_sum(const struct comm *comm, uint64_t *numbers, int count);
bool comm_vote_most(const struct comm *comm, double *numbers, int count);

/* Collective. */
void comm_barrier(const struct comm *comm);
uint64_t comm_min(const struct comm *comm, uint64_t value); /* INT64_MAX at most */
uint64_t comm_sum(const struct comm *comm, uint64_t value); /* modulo 2^64 */
void comm_sum_vector(const struct comm *comm, double *vector, int64_t count);
void comm_most_vector(const struct comm *comm, double *vector, int64_t count);

/* Collective over the ranks of a node.  Send data from one of them to all; whether `mine` is true
 * on all of them. */
void comm_node_share(const struct comm *comm, void *data, size_t bytes, int from);
bool comm_node_all(const struct comm *comm, bool mine);

/* Collective over the ranks of a computer: gather `bytes` of each, in their order.  The caller
 * frees them; without memory all ranks end. */
void *comm_local_gather(const struct comm *comm, const void *mine, size_t bytes);

/* End all ranks at once, by what comm_open was given for that.  From any thread. */
void comm_abort(const struct comm *comm, int code) __attribute__((noreturn));

/* Likewise, where there is no memory for `what`, and others wait for this rank. */
void comm_no_memory(const struct comm *comm, const char *what) __attribute__((noreturn));

/* Send to, or receive from, one other rank; both ends give the same size.  Blocks. */
void comm_send(const struct comm *comm, const void *data, size_t bytes, int to);
void comm_receive(const struct comm *comm, void *data, size_t bytes, int from);

/* "Open MPI v4.1.4", one line. */
void comm_version(char *text, size_t size);
