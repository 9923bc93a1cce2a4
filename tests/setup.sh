#!/bin/sh
# Install the Debian or Ubuntu packages that building and testing need and that are missing; says which.
# nvcc (the CUDA Toolkit) is not installed: without it the build is complete but for the GPU.
set -eu
wanted="gcc make pkg-config libopenmpi-dev openmpi-bin libhdf5-dev libhdf5-openmpi-dev libjansson-dev
        libdeflate-dev libxxhash-dev libhwloc-dev libcmocka-dev libopenblas-dev python3-h5py python3-numpy python3-pytest"
missing=""
for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "setup: nothing is missing"
    exit 0
fi
echo "setup: installing$missing"
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words
$as_root apt-get install -y -qq $missing >/dev/null
