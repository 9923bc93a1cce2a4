#!/bin/bash
# A product on a machine with PBS and PALS: qsub pbs-pals.sh, in the folder of this file.
# PBS sends no signal before the limit, so the program watches the time; the job resubmits itself.
#PBS -N dgemm_ooc
# Many sites also require some of these (remove one #):
##PBS -A me
##PBS -q gpu
##PBS -l filesystems=home:scratch
#PBS -l select=2:ncpus=64:mpiprocs=4:ngpus=4
#PBS -l walltime=04:00:00
#PBS -j oe
set -u

# Edit these.
DGEMM_OOC=$HOME/dgemm_ooc              # a clone; make install fills in its folders
PROGRAM=$DGEMM_OOC/build/dgemm_ooc     # or dgemm_ooc, of PATH
INPUT=/scratch/me/input.h5
OUTPUT=/scratch/me/input-C.h5
OPTIONS=(--alpha 1)                    # and others, as --transa T --host-memory 100G
# mpiexec must not bind: the program binds the threads of each rank near its GPU.
LAUNCHER=(mpiexec -n 8 --ppn 4 --depth 16 --cpu-bind none)
SCRIPT=pbs-pals.sh                     # this file
# module load cray-hdf5 cuda

. "$DGEMM_OOC/jobs/common.sh" 2>/dev/null ||
    { echo "$0: set DGEMM_OOC to the folder of a clone: there is no $DGEMM_OOC/jobs/common.sh" >&2; exit 2; }
needs PBS_JOBID "submit this script by qsub pbs-pals.sh"
cd "$PBS_O_WORKDIR" || exit
MAX_TIME=$(qstat -f "$PBS_JOBID" | sed -n 's/ *Resource_List.walltime = //p')

advise_stripes
attempt "${LAUNCHER[@]}" "$PROGRAM" "$INPUT" -o "$OUTPUT" "${OPTIONS[@]}"
if goes_on; then
    qsub "$SCRIPT"
fi
exit "$status"
