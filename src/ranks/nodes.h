/* Computers, and nodes: groups of ranks that share memory. */
#pragma once

#include <stdint.h>

struct comm;
struct error;

/* A number that is the same on all ranks of a computer, also in containers that have host names of
 * their own.  MPI_COMM_TYPE_SHARED is not used: where PMIX_MCA_gds=hash is set, Open MPI 4.1 puts
 * ranks of other computers into it, and hangs. */
uint64_t nodes_computer(void);

/* Collective, after comm_open.  Form nodes of the ranks of each computer.  Where computers have
 * different numbers of ranks, nodes get a size that divides the numbers of all but the last; where
 * /proc does not let ranks share memory, each rank is a node.  Complains where there are several
 * nodes and the MPI cannot be used by two threads. */
int nodes_form(struct comm *comm, struct error *err);
