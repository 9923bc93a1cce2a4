#!/bin/bash
# A product on one computer: ./workstation.sh.  Ctrl-C saves and stops, which a bare mpirun
# leaves no time for; to resume, start it again.
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
INPUT=$HOME/input.h5
OUTPUT=$HOME/input-C.h5
OPTIONS=(--alpha 1)                    # and others, as --transa T --host-memory 100G
MAX_TIME=                              # of one attempt
# -n: one rank per GPU; the program binds its threads near the GPU
LAUNCHER=(setsid mpirun -n 2 --bind-to none)

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }

# Signal the ranks directly, since Open MPI's mpirun leaves them no time after TERM; launchers whose
# ranks have sessions of their own forward the signal.
# shellcheck disable=SC2317 # it is called by a trap
ask_to_stop()
{
    pkill -USR2 -s "$launcher" -x "$(basename "$PROGRAM")" || kill "$launcher"
}
while
    attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT" "${OPTIONS[@]}"
    goes_on
do
    echo "stopped, $(reported "done") of C is done; resuming"
done
exit "$status"
