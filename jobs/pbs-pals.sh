#!/bin/bash
# A product on a machine with PBS and PALS: qsub pbs-pals.sh, in the folder of this file.
# PBS gives no warning, so the program stops by its own clock; the job hands itself in again.
#PBS -N dgemm_ooc
# What many sites also want to know, without the first #:
##PBS -A me
##PBS -q gpu
##PBS -l filesystems=home:scratch
#PBS -l select=2:ncpus=64:mpiprocs=4:ngpus=4
#PBS -l walltime=04:00:00
#PBS -j oe
set -u
cd "$PBS_O_WORKDIR" || exit

DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
INPUT=/scratch/me/input.h5
OUTPUT=/scratch/me/input-C.h5
MAX_TIME=$(qstat -f "$PBS_JOBID" | sed -n 's/ *Resource_List.walltime = //p')
# Nothing is bound by mpiexec: the program puts the threads of each rank near its GPU.
LAUNCHER=(mpiexec -n 8 --ppn 4 --depth 16 --cpu-bind none)
SCRIPT=pbs-pals.sh                     # this file
# module load cray-hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" || exit
advise_stripes
attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT"
if goes_on; then
    qsub "$SCRIPT"
fi
exit "$status"
