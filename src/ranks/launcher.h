/* What the environment says about the launcher that started this process, and how MPIs name
 * themselves. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* For use before MPI is initialised: this process's rank, the number of ranks, and of those on this
 * computer.  Without a launcher they are 0, 1 and 1; where the launcher does not state the last
 * one, it is the number of all ranks. */
int launcher_rank(void);
int launcher_size(void);
int launcher_local_size(void);

/* The tasks of the Slurm job in whose script this process was started without srun; 0 if it was
 * not, or is one of the tasks. */
int launcher_tasks_left(void);

/* Whether this process was started by itself, as far as the environment says; and whether it
 * therefore needs no MPI: not all launchers of other MPIs than these are known. */
bool launcher_is_absent(void);
bool launcher_needs_no_mpi(void);

/* Whether this process is a task of srun. */
bool launcher_is_srun(void);

/* Whether Open MPI's launcher has started all ranks on this computer. */
bool launcher_is_on_one_computer(void);

/* Whether srun gives this task no interface by which the MPI of this build could find the other
 * tasks, and MPI_Init would end the process (as Open MPI's does, with a page of text). */
bool launcher_ends_mpi(void);

/* CPUs of this computer that the job has for itself, as far as can be told before MPI is
 * initialised: under Slurm those that it has allocated, under mpirun all that the system allows
 * (INT_MAX).  None (0) where a binding may be all that keeps others' CPUs apart: it is the user's,
 * without a launcher, or that of a launcher which divides nodes among jobs or steps by it. */
int launcher_cpus(void);

/* How Slurm starts ranks of the MPI with this MPI_Get_library_version: "srun --mpi=pmix". */
const char *launcher_srun(const char *library);

/* Its name and version in one line: "MPICH 4.0.2" from "MPICH Version:\t4.0.2\nMPICH ...". */
void launcher_name_mpi(const char *library, char *text, size_t size);
