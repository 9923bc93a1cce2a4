#!/bin/bash
# A product on a Slurm cluster: sbatch slurm.sh.  The job saves and stops before its time limit, and
# requeues itself until C is complete.
#SBATCH --job-name=dgemm_ooc
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
#SBATCH --time=4:00:00
#SBATCH --signal=USR2@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=dgemm_ooc-%j.log
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
# In a job array each task has its own files: input-7.h5, input-7-C.h5.
TASK=${SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}
INPUT=/scratch/me/input$TASK.h5
OUTPUT=/scratch/me/input$TASK-C.h5
OPTIONS=(--alpha 1)                    # and others, as --transa T --host-memory 100G
MPI=pmix                               # Open MPI; pmi2: MPICH, Intel MPI; cray_shasta: Cray's
# export MPICH_OFI_NIC_POLICY=NUMA     # Cray's MPI, several NICs per node
# module load openmpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs SLURM_JOB_ID "submit this script by sbatch slurm.sh"
needs SLURM_CPUS_PER_TASK "give --cpus-per-task"
JOB=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
MAX_TIME=$(squeue -h -j "$JOB" -o %L)  # the rest of --time
# srun must not bind: the program binds the threads of each rank near its GPU.
LAUNCHER=(srun --mpi="$MPI" --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK"
          --cpu-bind=none --gpu-bind=none)
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

advise_stripes
attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT" "${OPTIONS[@]}"
if goes_on; then
    scontrol requeue "$JOB" || { sleep 30; scontrol requeue "$JOB"; }  # the controller may be busy
fi
exit "$status"
