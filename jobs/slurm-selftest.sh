#!/bin/bash
# A small product with all checks: sbatch slurm-selftest.sh; the log ends with the verdict.
#SBATCH --job-name=dgemm_ooc-selftest
# Many sites also require some of these (remove one #).  --mem=0 is all memory of a node.
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

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/scratch/me                     # visible to all nodes
MPI=pmix                               # Open MPI; pmi2: MPICH, Intel MPI; cray_shasta: Cray's
# export MPICH_OFI_NIC_POLICY=NUMA     # Cray's MPI, several NICs per node
# module load openmpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs SLURM_JOB_ID "submit this script by sbatch slurm-selftest.sh"
needs SLURM_CPUS_PER_TASK "give --cpus-per-task"
# srun must not bind: the program binds the threads of each rank near its GPU.
LAUNCHER=(srun --mpi="$MPI" --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK"
          --cpu-bind=none --gpu-bind=none)
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

self_test "${LAUNCHER[@]}"
