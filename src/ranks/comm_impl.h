/* For the other users of MPI: nodes, and the exchange between them. */
#pragma once

#include <mpi.h>
#include <stdbool.h>

struct comm;

/* All ranks, in the program's order; what is sent between them. */
MPI_Comm comm_world(void);
enum { TAG_RAISE = 1, TAG_DATA };

/* The same ranks; for panels alone, whose tags are numbers. */
MPI_Comm comm_panels(void);

/* Around MPI_Init_thread, for comm_bound_by_default.  To be asked for its parameters Open MPI loads
 * all of its components, which takes a quarter of a second where one of them measures the CPU's
 * clock; before it starts, it loads most of them for both. */
void comm_open_parameters(void);
void comm_read_parameters(void); /* collective */

/* How the launcher of Open MPI 5 came by the binding of its ranks, as this one can tell. */
enum prte_binding { PRTE_UNKNOWN, PRTE_DEFAULT, PRTE_ASKED };
enum prte_binding comm_prte_binding(void);

/* Whether a mapping, as Open MPI's launchers have it, goes by parts of a node, or gives each rank
 * so many CPUs: then it means the binding, too.  One by nodes or slots says only how many ranks go
 * where.  Pure. */
bool comm_names_cpus(const char *mapping);

/* Collective.  Form nodes of so many ranks. */
void comm_group(struct comm *comm, int size);

/* While two threads use MPI, one at a time: around every call. */
void comm_lock(void);
void comm_unlock(void);

/* Who waits for MPI naps between two looks, and asks now and then whether a rank has failed. */
enum { LOOKS = 50 };
void comm_nap(void);
