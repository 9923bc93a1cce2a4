# shellcheck shell=bash
# What the job scripts share.  A user copies one of them; it finds this file in the clone that it
# names.  They set PROGRAM, OUTPUT and MAX_TIME (none, if empty), the self-tests PROGRAM and FOLDER.

MOST_STALLS=3    # attempts in a row that add nothing; then it is given up
START_SECONDS=20 # in which a segmentation fault is one of the launcher or MPI

launcher=
leaves=

# Where the launcher does not pass signals on to the ranks, the script has another way.
ask_to_stop()
{
    kill -USR2 "$launcher"
}

# The value of a key of the report's top level.
reported()
{
    sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\).*/\1/p" "$OUTPUT.report" 2>/dev/null
}

# Count the attempts in a row that added nothing, from job to job in a file beside the output.
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

# Run LAUNCHER... PROGRAM....  `status` is then what the program said, which a launcher that was
# signalled may hide.
run_once()
{
    rm -f "$OUTPUT.report"
    case $MAX_TIME in [0-9]*) set -- "$@" --max-time "$MAX_TIME" ;; esac
    "$@" --report "$OUTPUT.report" &
    launcher=$!
    trap ask_to_stop USR2
    trap 'leaves=1; ask_to_stop' HUP INT TERM
    while kill -0 "$launcher" 2>/dev/null; do
        wait "$launcher" # until it ends, or a signal has come
    done
    wait "$launcher"
    status=$?
    [ ! -s "$OUTPUT.report" ] || status=$(reported exit_status)
}

# Run it, and once more where ranks fell over as they started, as a launcher's may.  USR2 to this
# script makes the ranks save and stop; HUP, INT and TERM too, and the job is then not to be handed
# in again.
attempt()
{
    local began=$SECONDS
    run_once "$@"
    if [ "$status" = 139 ] && [ $((SECONDS - began)) -lt "$START_SECONDS" ] && [ -z "$leaves" ]; then
        echo "the ranks did not start (status 139); once more" >&2
        run_once "$@"
    fi
    if [ "$status" = 75 ]; then
        count_stalls
    else
        rm -f "$OUTPUT.stalls"
    fi
}

# Whether the job is to be handed in again.
goes_on()
{
    [ "$status" = 75 ] && [ -z "$leaves" ] || return 1
    [ "$stalls" -lt "$MOST_STALLS" ] && return 0
    echo "given up: the last $stalls attempts have added nothing" >&2
    return 1
}

advise_stripes()
{
    local directory
    directory=$(dirname "$OUTPUT")
    if command -v lfs >/dev/null && lfs getstripe -d "$directory" 2>/dev/null; then
        echo "A large file should lie on all targets; before it is made:"
        echo "lfs setstripe -c -1 -S 16M $directory"
    fi
}

# Make a small problem in FOLDER, multiply it under LAUNCHER... with every check, and delete it.
self_test()
{
    local made h5mat
    h5mat=$(dirname "$(command -v "$PROGRAM")")/h5mat
    made=$(mktemp -d "$FOLDER/dgemm_ooc-XXXXXX") || exit
    "$h5mat" gen "$made/input.h5:/A" --rows 1500 --cols 1000 &&
        "$h5mat" gen "$made/input.h5:/B" --rows 1000 --cols 1200 &&
        "$@" "$PROGRAM" "$made/input.h5" --tile 512x512x512 --verify full &&
        "$@" "$PROGRAM" "$made/input.h5" --check-only
    status=$?
    rm -r "$made"
    [ "$status" = 0 ] && echo "SELF-TEST: PASSED" || echo "SELF-TEST: FAILED, status $status"
    exit "$status"
}
