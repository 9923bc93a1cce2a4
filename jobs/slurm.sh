#!/bin/bash
# A product on a Slurm cluster: sbatch slurm.sh.  The job saves and stops in time, and puts itself
# back into the queue until C is complete.
#SBATCH --job-name=dgemm_ooc
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=4:00:00
#SBATCH --signal=USR2@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=dgemm_ooc-%j.log
set -u

DGEMM_OOC=$HOME/dgemm_ooc              # a clone; installed: PREFIX/share/dgemm_ooc
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
INPUT=/scratch/me/input.h5
OUTPUT=/scratch/me/input-C.h5
MAX_TIME=$(squeue -h -j "$SLURM_JOB_ID" -o %L) # what is left of --time
LAUNCHER=(srun --mpi=pmix --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores --gpu-bind=none)
# module load openmpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" || exit
advise_stripes
attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT"
if goes_on; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
