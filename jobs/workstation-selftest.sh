#!/bin/bash
# A small product with all checks: ./workstation-selftest.sh; it ends with the verdict.
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/tmp
# -n: one rank per GPU; the program binds its threads near the GPU
LAUNCHER=(mpirun -n 2 --bind-to none)

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }

self_test "${LAUNCHER[@]}"
