#!/bin/bash
# A product on one computer: ./workstation.sh.  Ctrl-C saves and stops, for which a bare mpirun
# leaves no time; started again, it goes on.
set -u

DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
INPUT=$HOME/input.h5
OUTPUT=$HOME/input-C.h5
MAX_TIME=                              # of one attempt
# -n: one for each GPU, near which the program binds the threads of each
LAUNCHER=(setsid mpirun -n 2 --bind-to none)

. "$DGEMM_OOC/jobs/common.sh" || exit
# Open MPI's mpirun leaves the ranks no time after TERM, so they are told themselves; others, whose
# ranks have sessions of their own, pass it on.
# shellcheck disable=SC2317 # it is called by a trap
ask_to_stop()
{
    pkill -USR2 -s "$launcher" -x "$(basename "$PROGRAM")" || kill "$launcher"
}
while
    attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT"
    goes_on
do
    echo "stopped, $(reported "done") of C is done; going on"
done
exit "$status"
