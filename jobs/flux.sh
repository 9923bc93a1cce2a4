#!/bin/bash
# A product on a machine with Flux: flux batch flux.sh, in the folder of this file.  The job
# saves and stops before its time limit, and resubmits itself until C is complete.
#flux: --job-name=dgemm_ooc
# Many sites also require --bank and --queue.
#flux: --nodes=2
#flux: --exclusive
#flux: --time-limit=4h
#flux: --output=dgemm_ooc-{{id}}.log
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
INPUT=/scratch/me/input.h5
OUTPUT=/scratch/me/input-C.h5
OPTIONS=(--alpha 1)                    # and others, as --transa T --host-memory 100G
RANKS=(-N 2 -n 8 -c 16 -g 1)           # nodes, ranks, CPUs and GPUs of a rank
SCRIPT=flux.sh                         # this file
# module load openmpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs FLUX_URI "submit this script by flux batch flux.sh"
MAX_TIME=$(($(flux job timeleft) - 60))s
# Flux must not bind: the program binds the threads of each rank near its GPU.
LAUNCHER=(flux run "${RANKS[@]}" -o cpu-affinity=off -o gpu-affinity=off
          -t "$MAX_TIME" --signal=SIGUSR2@300)

# shellcheck disable=SC2317 # it is called by a trap
ask_to_stop()
{
    flux kill --signal=SIGUSR2 "$(flux job last)"
}
advise_stripes
attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT" "${OPTIONS[@]}"
if goes_on; then
    flux --parent batch "$SCRIPT"
fi
exit "$status"
