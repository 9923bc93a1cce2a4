#!/bin/bash
# A small product with all checks: qsub pbs-pals-selftest.sh; the log ends with the verdict.
#PBS -N dgemm_ooc-test
# Many sites also require some of these (remove one #):
##PBS -A me
##PBS -q gpu
##PBS -l filesystems=home:scratch
#PBS -l select=2:ncpus=64:mpiprocs=4:ngpus=4
#PBS -l walltime=00:10:00
#PBS -j oe
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/scratch/me                     # visible to all nodes
# mpiexec must not bind: the program binds the threads of each rank near its GPU.
LAUNCHER=(mpiexec -n 8 --ppn 4 --depth 16 --cpu-bind none)
# module load cray-hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs PBS_JOBID "submit this script by qsub pbs-pals-selftest.sh"
cd "$PBS_O_WORKDIR" || exit

self_test "${LAUNCHER[@]}"
