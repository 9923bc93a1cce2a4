#!/bin/bash
# A product on a machine with LSF and jsrun: bsub lsf.sh.  Five minutes before the time limit LSF
# sends USR2 to this script, which exits with status 75, and LSF requeues the job (-Q 75).
#BSUB -J dgemm_ooc
# Many sites also require some of these (remove one #):
##BSUB -P me
##BSUB -q batch
#BSUB -nnodes 2
#BSUB -W 2:00
#BSUB -wa USR2
#BSUB -wt 5
#BSUB -Q 75
#BSUB -o dgemm_ooc-%J.log
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
INPUT=/scratch/me/input.h5
OUTPUT=/scratch/me/input-C.h5
OPTIONS=(--alpha 1)                    # and others, as --transa T --host-memory 100G
MAX_TIME=2h                            # as -W
# -n: all ranks; -r: ranks per node; -c: cores per rank
LAUNCHER=(jsrun -n 12 -r 6 -a 1 -g 1 -c 7 -b packed:7)
# module load spectrum-mpi hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs LSB_JOBID "submit this script by bsub lsf.sh"

# shellcheck disable=SC2317 # it is called by a trap
ask_to_stop()
{
    jskill -s USR2 all
}
advise_stripes
attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT" "${OPTIONS[@]}"
if [ "$status" = 75 ] && ! goes_on; then
    status=1
fi
exit "$status"
