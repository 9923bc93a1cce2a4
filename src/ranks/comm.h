/* The ranks: who there is, and decisions that all of them take together.  With the exchange between
 * nodes (exchange.h) the only user of MPI; only the main thread calls it, but for comm_raised,
 * comm_fail and comm_abort. */
#ifndef DGEMM_OOC_COMM_H
#define DGEMM_OOC_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

struct comm {
    int rank, size;
    int computers;
    int local_rank, local_size; /* on this computer */
    int nodes, node;            /* groups of ranks that share memory; this rank's */
    int node_rank, node_size;   /* in it; the last may have fewer */
    int layer, first, peers;    /* this rank's part of k (layers.h); who else works on it: so many
                                   ranks from that one on */
    bool raised;                /* this rank has told the others that it failed */
};

/* Collective.  Ranks are numbered computer by computer; each is a node of its own (nodes.h).
 * Complains, not on all ranks alike, when the launcher started several ranks that MPI sees as one
 * each. */
int comm_open(struct comm *comm, struct error *err);
void comm_close(void);

/* Whether the CPUs that this process is bound to are the default policy of its launcher, which
 * nobody asked for.  Only Open MPI 4 tells; else false. */
bool comm_bound_by_default(void);

/* Collective, always with the same numbers.  Form layers of equally many ranks, in their order,
 * with nodes of so many; from then on `nodes` and `node` are those of the layer. */
void comm_form_layers(struct comm *comm, int layers, int ranks_per_node);

/* Where this rank is in its layer's grid. */
static inline int comm_place(const struct comm *comm)
{
    return comm->rank - comm->first;
}

/* Collective.  Send `bytes` of plain data from `root` to all. */
void comm_share(void *data, size_t bytes, int root);

/* Collective.  All ranks leave with the complaint of the lowest failing rank, which it names (but
 * for a stop, and rank 0 only where it had raised), and with its code: 0 when none failed.  A rank
 * that has only heard of a failure (ERROR_ELSEWHERE) fails, too. */
int comm_agree(struct comm *comm, struct error *err);

/* Between agreements: tell the other ranks that this one failed, unless one of them has said so
 * before; and whether one has.  The next comm_agree settles it. */
void comm_raise(struct comm *comm);
bool comm_raised(const struct comm *comm);

/* From any thread, once and for all: this rank cannot go on.  comm_raised is true on it from now
 * on, so that its main thread, whatever it waits for, comes and raises. */
void comm_fail(void);

/* Collective, while the exchange between nodes goes on: up to MEETING_SUMS sums over all ranks,
 * begun now and asked for later; or sums modulo 2^64, and the largest of up to MEETING_LARGEST
 * values, at once.  False, and nothing comes of it, when a rank has raised; then there is no other
 * meeting. */
enum { MEETING_SUMS = 96, MEETING_LARGEST = 2 };
void comm_meet_begin(const double *sums, int count);
bool comm_meet_end(const struct comm *comm, double *sums, int count);
bool comm_meet(const struct comm *comm, uint64_t *sums, int count, double *largest, int values);

/* Collective. */
void comm_barrier(void);
uint64_t comm_min(uint64_t value); /* INT64_MAX at most */
uint64_t comm_sum(uint64_t value); /* modulo 2^64 */
void comm_sum_vector(double *vector, int64_t count);
void comm_statistics(const double *values, int count, double *least, double *sum, double *most);

/* Collective over the ranks of a node: from one of them to all; whether it holds for all. */
void comm_node_share(const struct comm *comm, void *data, size_t bytes, int from);
bool comm_node_all(const struct comm *comm, bool mine);

/* Collective over the ranks of a computer: what each has, in their order. */
void comm_local_gather(const void *mine, size_t bytes, void *everyones);

/* End all ranks at once.  From any thread. */
void comm_abort(int code) __attribute__((noreturn));

/* To or from one other rank; the receiver knows how much. */
void comm_send(const void *data, size_t bytes, int to);
void comm_receive(void *data, size_t bytes, int from);

/* "Open MPI v4.1.4", one line. */
void comm_version(char *text, size_t size);

#endif
