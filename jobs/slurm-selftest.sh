#!/bin/bash
# A small product with every check: sbatch slurm-selftest.sh; the log ends with the verdict.
#SBATCH --job-name=dgemm_ooc-selftest
# What many sites also want to know, without the first #.  Memory: 0 is all of a node's.
##SBATCH --account=me
##SBATCH --partition=gpu
##SBATCH --constraint=gpu
##SBATCH --exclusive
##SBATCH --mem=0
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=10
#SBATCH --output=dgemm_ooc-selftest-%j.log
set -u

DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/scratch/me                     # that all nodes see
MPI=pmix                               # Open MPI; pmi2: MPICH, Intel MPI; cray_shasta: Cray's
# Nothing is bound by srun: the program puts the threads of each rank near its GPU.
LAUNCHER=(srun --mpi="$MPI" --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK"
          --cpu-bind=none --gpu-bind=none)
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
# export MPICH_OFI_NIC_POLICY=NUMA     # Cray's MPI, several network cards a node
# module load openmpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" || exit
self_test "${LAUNCHER[@]}"
