#!/bin/bash
# A product on a Cray with ALPS and one GPU a node (XK): qsub pbs-alps.sh, in the folder of this
# file.  PBS gives no warning, so the program stops by its own clock; the job hands itself in again.
#PBS -N dgemm_ooc
# What many sites also want to know, without the first #:
##PBS -A me
##PBS -q gpu
#PBS -l nodes=8:ppn=16
#PBS -l walltime=04:00:00
#PBS -j oe
set -u
cd "$PBS_O_WORKDIR" || exit

DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
INPUT=/scratch/me/input.h5
OUTPUT=/scratch/me/input-C.h5
MAX_TIME=$(qstat -f "$PBS_JOBID" | sed -n 's/ *Resource_List.walltime = //p')
# -n: all ranks; -N: those of a node; -d: cores of each
LAUNCHER=(aprun -n 8 -N 1 -d 16 -cc depth)
SCRIPT=pbs-alps.sh                     # this file
# module load cudatoolkit cray-hdf5

. "$DGEMM_OOC/jobs/common.sh" || exit
advise_stripes
attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT"
if goes_on; then
    qsub "$SCRIPT"
fi
exit "$status"
