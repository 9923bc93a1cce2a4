#!/bin/sh
# setup.sh [GOAL...]: install the Debian or Ubuntu packages that are missing for these goals of make; says which.
# setup.sh --list [GOAL...]: only print what they need, for whoever may not install.
# nvcc (the CUDA Toolkit) is not installed: without it the build is complete but for the GPU.
set -eu
PATIENCE=300 # seconds that another apt may hold its locks
list=""
[ "${1:-}" != --list ] || { list=1; shift; }
mpi="libopenmpi-dev openmpi-bin"
# A machine with another MPI keeps it: Debian's Open MPI would become mpicc and mpirun of all.
if echo "#include <mpi.h>" | mpicc -E -dM -xc - 2>/dev/null | grep -q "MPI_VERSION" && ! mpicc --showme:version >/dev/null 2>&1; then
    echo "setup: mpicc is not Open MPI's, and stays what it is" >&2
    mpi=""
fi
wanted="build-essential pkg-config $mpi libhdf5-dev libjansson-dev libdeflate-dev libxxhash-dev libhwloc-dev python3-h5py
        python3-numpy"
units="libcmocka-dev python3-pytest python3-pytest-xdist"
optional=""
need_clang()
{
    # libFuzzer comes with clang, or as a package of its own: what counts is that it works.
    echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null || optional="$optional clang libclang-rt-dev"
}
for goal; do
    case $goal in
    check | check-programs | smoke | coverage) wanted="$wanted $units" ;;
    deb) wanted="$wanted $units debhelper" ;;
    wheel) wanted="$wanted python3-pip python3-setuptools python3-wheel" ;;
    bench) wanted="$wanted libopenblas-dev" ;;
    test-fresh) wanted="$wanted $units mmdebstrap" ;;
    check* | fuzz) wanted="$wanted $units"; need_clang ;;
    soak | test*)
        wanted="$wanted $units libopenblas-dev mpich libmpich-dev iproute2 debhelper lintian mandoc bash-completion lmod shellcheck gfortran
                munge slurm-client slurmctld slurmd mmdebstrap python3-pip python3-setuptools python3-wheel python3-mpi4py"
        [ -z "$mpi" ] || wanted="$wanted libhdf5-openmpi-dev"
        need_clang
        # In which the page of a run is looked at; not a package everywhere.
        command -v chromium >/dev/null || optional="$optional chromium"
        ;;
    esac
done
once() { printf '%s\n' "$@" | sort -u; }
# shellcheck disable=SC2086 # lists of words
wanted=$(once $wanted) optional=$(once $optional)
# shellcheck disable=SC2086 # lists of words
set -- $wanted $optional
if [ -n "$list" ]; then
    printf '%s\n' "$@"
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "setup: this is neither Debian nor Ubuntu.  Install what these are called there: $*" >&2
    exit 1
fi
missing=""
for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
if [ -z "$missing$optional" ]; then
    echo "setup: nothing is missing"
    exit 0
fi
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    # shellcheck disable=SC2086 # a list of words
    echo "setup: only root can install, and there is no sudo.  Ask for: apt-get install$missing" $optional >&2
    exit 1
fi
# A question of a package would be invisible, and wait for ever.
as_root="$([ "$(id -u)" = 0 ] || echo sudo) env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
waited=0
until $as_root apt-get update -qq >"$log" 2>&1; do
    if ! grep -q "/lock" "$log"; then # one repository of many, perhaps none that is needed
        sed 's/^/setup: /' "$log" >&2
        echo "setup: apt-get update failed; going on with the lists that are there" >&2
        break
    fi
    [ "$waited" -lt "$PATIENCE" ] || { cat "$log" >&2; exit 1; }
    [ "$waited" != 0 ] || echo "setup: waiting for another apt, up to $PATIENCE s"
    sleep 5
    waited=$((waited + 5))
done
for package in $optional; do
    apt-cache show "$package" >/dev/null 2>&1 && missing="$missing $package"
done
[ -n "$missing" ] || { echo "setup: nothing is missing"; exit 0; }
echo "setup: installing$missing"
# shellcheck disable=SC2086 # a list of words
$as_root apt-get -o DPkg::Lock::Timeout="$PATIENCE" install -y -q $missing >"$log" &
apt=$!
until [ ! -e "/proc/$apt" ]; do
    sleep 1
    waited=$((waited + 1))
    [ $((waited % 5)) != 0 ] || echo "setup: $(grep -c '^Get:' "$log") packages fetched," \
        "$(grep -c '^Unpacking' "$log") unpacked, $(grep -c '^Setting up' "$log") set up"
done
wait "$apt" || { tail "$log" >&2; exit 1; }
