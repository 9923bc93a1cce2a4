#!/bin/sh
# setup.sh [tests]: install the Debian or Ubuntu packages that building and the demo need, or the tests too, and that are
# missing; says which.  nvcc (the CUDA Toolkit) is not installed: without it the build is complete but for the GPU.
set -eu
wanted="build-essential pkg-config libopenmpi-dev openmpi-bin libhdf5-dev libjansson-dev libdeflate-dev libxxhash-dev
        libhwloc-dev python3-h5py python3-numpy"
optional=""
if [ "${1:-}" = tests ]; then
    wanted="$wanted python3-pytest python3-pytest-xdist libcmocka-dev libopenblas-dev libhdf5-openmpi-dev mpich libmpich-dev iproute2 debhelper
            lintian mandoc bash-completion lmod shellcheck munge slurm-client slurmctld slurmd"
    # libFuzzer comes with clang, or as a package of its own: what counts is that it works.
    echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null || optional="clang libclang-rt-dev"
    # In which the page of a run is looked at; not a package everywhere.
    command -v chromium >/dev/null || optional="$optional chromium"
fi
missing=""
for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
if [ -z "$missing$optional" ]; then
    echo "setup: nothing is missing"
    exit 0
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
for package in $optional; do
    apt-cache show "$package" >/dev/null 2>&1 && missing="$missing $package"
done
echo "setup: installing$missing"
# shellcheck disable=SC2086 # a list of words
$as_root apt-get install -y -qq $missing >/dev/null
