/* Computers, and nodes: groups of ranks that share memory. */
#ifndef DGEMM_OOC_NODES_H
#define DGEMM_OOC_NODES_H

#include <stdint.h>

struct comm;
struct error;

/* The same on all ranks of a computer, also in containers that give it names of their own.  What
 * the MPI takes for one (MPI_COMM_TYPE_SHARED) is not asked: Open MPI 4.1 puts ranks of others into
 * it where PMIX_MCA_gds=hash is set, and hangs. */
uint64_t nodes_computer(void);

/* Collective, after comm_open.  The ranks of a computer form a node; where computers have different
 * numbers of them, nodes have a size that divides them all but those of the last; where /proc does
 * not let ranks share memory, each is a node.  Complains of an MPI that several nodes cannot
 * use. */
int nodes_form(struct comm *comm, struct error *err);

#endif
