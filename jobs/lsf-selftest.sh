#!/bin/bash
# A small product with every check: bsub lsf-selftest.sh; the log ends with the verdict.
#BSUB -J dgemm_ooc-selftest
# What many sites also want to know, without the first #:
##BSUB -P me
##BSUB -q batch
#BSUB -nnodes 2
#BSUB -W 0:10
#BSUB -o dgemm_ooc-selftest-%J.log
set -u

DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/scratch/me                     # that all nodes see
# -n: all ranks; -r: those of a node; -c: cores of each
LAUNCHER=(jsrun -n 12 -r 6 -a 1 -g 1 -c 7 -b packed:7)
# module load spectrum-mpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" || exit
self_test "${LAUNCHER[@]}"
