#!/bin/bash
# A small product with all checks: qsub pbs-alps-selftest.sh; the log ends with the verdict.
#PBS -N dgemm_ooc-test
# Many sites also require some of these (remove one #):
##PBS -A me
##PBS -q gpu
#PBS -l nodes=2:ppn=16
#PBS -l walltime=00:10:00
#PBS -j oe
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/scratch/me                     # visible to all nodes
# -n: all ranks; -N: ranks per node; -d: cores per rank
LAUNCHER=(aprun -n 2 -N 1 -d 16 -cc depth)
# module load cudatoolkit cray-hdf5

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs PBS_JOBID "submit this script by qsub pbs-alps-selftest.sh"
cd "$PBS_O_WORKDIR" || exit

self_test "${LAUNCHER[@]}"
