#!/bin/bash
# A small product with all checks: flux batch flux-selftest.sh; the log ends with the verdict.
#flux: --job-name=dgemm_ooc-selftest
# Many sites also require --bank and --queue.
#flux: --nodes=2
#flux: --exclusive
#flux: --time-limit=10m
#flux: --output=dgemm_ooc-selftest-{{id}}.log
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
FOLDER=/scratch/me                     # visible to all nodes
# Flux must not bind: the program binds the threads of each rank near its GPU.
LAUNCHER=(flux run -N 2 -n 8 -c 16 -g 1 -o cpu-affinity=off -o gpu-affinity=off)
# module load openmpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs FLUX_URI "submit this script by flux batch flux-selftest.sh"

self_test "${LAUNCHER[@]}"
