/* Nodes: groups of ranks that share memory. */
#pragma once

struct comm;
struct error;

/* Collective, after comm_open.  Form nodes of the ranks of each computer.  Where computers have
 * different numbers of ranks, nodes get a size that divides the numbers of all but the last; where
 * /proc does not let ranks share memory, each rank is a node.  Complains where there are several
 * nodes and the MPI cannot be used by two threads. */
int nodes_form(struct comm *comm, struct error *err);
