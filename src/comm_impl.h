/* For the other user of MPI, the exchange between nodes. */
#ifndef DGEMM_OOC_COMM_IMPL_H
#define DGEMM_OOC_COMM_IMPL_H

#include <mpi.h>

/* All ranks, in the program's order. */
MPI_Comm comm_world(void);

/* While two threads use MPI, one at a time: around every call. */
void comm_lock(void);
void comm_unlock(void);

#endif
