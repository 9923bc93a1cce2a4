/* For the other users of MPI: nodes, and the exchange between them. */
#pragma once

#include <mpi.h>

struct comm;

/* All ranks, in the program's order; what is sent between them. */
MPI_Comm comm_world(void);
enum { TAG_RAISE = 1, TAG_DATA };

/* The same ranks; for panels alone, whose tags are numbers. */
MPI_Comm comm_panels(void);

/* Collective.  Form nodes of so many ranks. */
void comm_group(struct comm *comm, int size);

/* While two threads use MPI, one at a time: around every call. */
void comm_lock(void);
void comm_unlock(void);

/* Who waits for MPI naps between two looks, and asks now and then whether a rank has failed. */
enum { NAP_NANOSECONDS = 20000, LOOKS = 50 };
