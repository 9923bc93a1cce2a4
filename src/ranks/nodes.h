/* Nodes: groups of ranks that share memory. */
#ifndef DGEMM_OOC_NODES_H
#define DGEMM_OOC_NODES_H

struct comm;
struct error;

/* Collective, after comm_open.  The ranks of a computer form a node; where computers have different
 * numbers of them, nodes have a size that divides them all but those of the last; where /proc does
 * not let ranks share memory, each is a node.  For tests DGEMM_OOC_TEST_NODE=R makes nodes of R on
 * a single computer.  Complains of an MPI that several nodes cannot use. */
int nodes_form(struct comm *comm, struct error *err);

#endif
