#!/bin/bash
# A small product with every check: ./workstation-selftest.sh; it ends with the verdict.
set -u

DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/tmp
# -n: one for each GPU, near which the program binds the threads of each
LAUNCHER=(mpirun -n 2 --bind-to none)

. "$DGEMM_OOC/jobs/common.sh" || exit
self_test "${LAUNCHER[@]}"
