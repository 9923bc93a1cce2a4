#!/bin/bash
# A small product with all checks: bsub lsf-selftest.sh; the log ends with the verdict.
#BSUB -J dgemm_ooc-selftest
# Many sites also require some of these (remove one #):
##BSUB -P me
##BSUB -q batch
#BSUB -nnodes 2
#BSUB -W 0:10
#BSUB -o dgemm_ooc-selftest-%J.log
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/scratch/me                     # visible to all nodes
# -n: all ranks; -r: ranks per node; -c: cores per rank
LAUNCHER=(jsrun -n 12 -r 6 -a 1 -g 1 -c 7 -b packed:7)
# module load spectrum-mpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs LSB_JOBID "submit this script by bsub lsf-selftest.sh"

self_test "${LAUNCHER[@]}"
