/* What the environment says of who started this process; and what an MPI calls itself. */
#ifndef DGEMM_OOC_LAUNCHER_H
#define DGEMM_OOC_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

/* Before MPI runs.  Rank and size: 0 and 1 without a launcher; and the ranks of this computer: all,
 * where it does not say. */
int launcher_rank(void);
int launcher_size(void);
int launcher_local_size(void);

/* Whether srun gives this task no interface by which the MPI of this build finds the others, and
 * that MPI then ends the process as it begins (Open MPI, with a page of text). */
bool launcher_ends_mpi(void);

/* The option by which this process's launcher gives a rank so many CPUs: "--cpus-per-task=16".
 * `allowed`: the system would let the process have them now. */
void launcher_cpus(int cpus, bool allowed, char *text, size_t size);

/* By what MPI_Get_library_version says: how Slurm starts ranks of that MPI, "srun --mpi=pmix". */
const char *launcher_srun(const char *library);

/* And its name and version in one line: "MPICH 4.0.2" of "MPICH Version:\t4.0.2\nMPICH ...". */
void launcher_name_mpi(const char *library, char *text, size_t size);

#endif
