# shellcheck shell=bash
# The common functions of the job scripts.  A user's copy of a script finds this file in the clone
# that DGEMM_OOC names.  Before they call a function scripts set PROGRAM, OUTPUT and MAX_TIME (empty:
# no limit), the self-tests PROGRAM and FOLDER.

MOST_STALLS=3    # consecutive attempts without progress after which to give up
START_SECONDS=20 # an earlier segmentation fault is blamed on the launcher or MPI

launcher=    # its process id
final=       # not empty: a signal has asked to stop without resuming

# End unless a variable is set, which the batch system does: needs VARIABLE REMEDY.
needs()
{
    [ -z "${!1-}" ] || return 0
    echo "$0: $1 is not set: $2" >&2
    exit 2
}

# Make the ranks save and stop.  Scripts redefine this where the launcher does not forward signals.
ask_to_stop()
{
    kill -USR2 "$launcher"
}

# Print the value of a top-level key of the report.
reported()
{
    sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\).*/\1/p" "$OUTPUT.report" 2>/dev/null
}

# Set `stalls` to the number of consecutive attempts without progress, which OUTPUT.stalls records
# across jobs.
count_stalls()
{
    local before=0 now
    now=$(reported "done")
    stalls=0
    [ ! -f "$OUTPUT.stalls" ] || read -r stalls before <"$OUTPUT.stalls"
    if awk "BEGIN { exit !(${now:-0} > $before) }"; then
        stalls=0
    else
        stalls=$((stalls + 1))
    fi
    echo "$stalls ${now:-0}" >"$OUTPUT.stalls"
}

# Run LAUNCHER... PROGRAM....  `status` becomes the program's exit status, from its report if there
# is one, since a launcher that received a signal may not pass it on.
run_once()
{
    rm -f "$OUTPUT.report"
    case $MAX_TIME in [0-9]*) set -- "$@" --max-time "$MAX_TIME" ;; esac
    "$@" --report "$OUTPUT.report" &
    launcher=$!
    trap ask_to_stop USR2
    trap 'final=1; ask_to_stop' HUP INT TERM
    while kill -0 "$launcher" 2>/dev/null; do
        wait "$launcher" # returns when it has ended, or on a signal
    done
    wait "$launcher"
    status=$?
    [ ! -s "$OUTPUT.report" ] || status=$(reported exit_status)
}

# Run it, and a second time if the ranks crashed at startup, which some launchers cause.  USR2 to
# this script makes the ranks save and stop; so do HUP, INT and TERM, after which the job is not
# resubmitted.
attempt()
{
    local began=$SECONDS
    run_once "$@"
    if [ "$status" = 139 ] && [ $((SECONDS - began)) -lt "$START_SECONDS" ] && [ -z "$final" ]; then
        echo "ranks crashed at startup (status 139); starting them again" >&2
        run_once "$@"
    fi
    if [ "$status" = 75 ]; then
        count_stalls
    else
        rm -f "$OUTPUT.stalls"
    fi
}

# Whether to resubmit the job.
goes_on()
{
    [ "$status" = 75 ] && [ -z "$final" ] || return 1
    [ "$stalls" -lt "$MOST_STALLS" ] && return 0
    echo "giving up: the last $stalls attempts made no progress" >&2
    rm -f "$OUTPUT.stalls" # a job that is submitted again begins anew
    return 1
}

# On Lustre, print the command that stripes the output's folder.
advise_stripes()
{
    local directory
    directory=$(dirname "$OUTPUT")
    if command -v lfs >/dev/null && lfs getstripe -d "$directory" 2>/dev/null; then
        echo "A large file should be striped over all targets.  Before it is created, run:"
        echo "lfs setstripe -c -1 -S 16M $directory"
    fi
}

# Generate a small problem in FOLDER, multiply it under LAUNCHER... with all checks, and delete it.
self_test()
{
    local made h5mat
    read -ra h5mat <<<"${H5MAT:-$(dirname "$(command -v "$PROGRAM" || echo "$PROGRAM")")/h5mat}"
    made=$(mktemp -d "$FOLDER/dgemm_ooc-XXXXXX") || exit
    "${h5mat[@]}" gen "$made/input.h5:/A" --rows 1500 --cols 1000 &&
        "${h5mat[@]}" gen "$made/input.h5:/B" --rows 1000 --cols 1200 &&
        "$@" "$PROGRAM" "$made/input.h5" --tile 512x512x512 --verify full &&
        "$@" "$PROGRAM" "$made/input.h5" --check-only
    status=$?
    rm -r "$made"
    "$PROGRAM" --version | grep -q "no CUDA" && echo "This build cannot use GPUs: it ran on CPUs."
    [ "$status" = 0 ] && echo "SELF-TEST: PASSED" || echo "SELF-TEST: FAILED, status $status"
    exit "$status"
}
