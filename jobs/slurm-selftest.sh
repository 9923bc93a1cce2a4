#!/bin/bash
# A small product with every check: sbatch slurm-selftest.sh; the log ends with the verdict.
#SBATCH --job-name=dgemm_ooc-selftest
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=10
#SBATCH --output=dgemm_ooc-selftest-%j.log
set -u

DGEMM_OOC=$HOME/dgemm_ooc              # a clone; installed: PREFIX/share/dgemm_ooc
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/scratch/me                     # that all nodes see
LAUNCHER=(srun --mpi=pmix --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores --gpu-bind=none)
# module load openmpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" || exit
self_test "${LAUNCHER[@]}"
