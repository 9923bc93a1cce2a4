"""Complex matrices of clients that are not Python: Octave writes them and reads C back, and R (hdf5r) reads
what its spelling says.  Both are column-major, so A and B change places (README).  Where a client is missing, the test is
skipped: apt install octave, r-cran-hdf5r."""
import shutil
import subprocess

import h5py
import numpy as np
import pytest

from launch import run
from matrices import multiply

OCTAVE = """
A = round(20 * rand(7, 5) - 10) + 1i * round(20 * rand(7, 5) - 10);
B = round(20 * rand(5, 6) - 10) - 1i * round(20 * rand(5, 6) - 10);
save -hdf5 input.h5 A B
"""
OCTAVE_READS = """
load input.h5
load c.h5
printf("%s %d %d %d", class(C), size(C), isequal(C, A * B))
"""
R_READS = """
suppressMessages(library(hdf5r))
input <- H5File$new("input.h5", "r"); result <- H5File$new("c.h5", "r")
A <- input[["A"]][, ]; B <- input[["B"]][, ]; C <- result[["C"]][, ]
cat(mode(C), dim(C), all(C == A %*% B))
"""


def client(*command, folder):
    """What a client prints; skips the test where it is not installed, or its library is not."""
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not here")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if "there is no package" in done.stderr:
        pytest.skip(f"{command[0]} is not here")
    # Octave 7 may fail after its last line ("preparing to exit").
    assert done.returncode == 0 or "preparing to exit" in done.stderr, done.stderr
    return done.stdout.strip()


def test_octave(tmp_path):
    client("octave-cli", "-q", "--eval", OCTAVE, folder=tmp_path)
    source = tmp_path / "input.h5"
    multiply(source, "-a", "B/value", "-b", "A/value", "-o", f"{tmp_path}/c.h5")
    assert "complex real/imag" in run("h5mat", "info", tmp_path / "c.h5").stdout
    assert client("octave-cli", "-q", "--eval", OCTAVE_READS, folder=tmp_path) == "double 7 6 1"


def test_r(tmp_path):
    names = np.dtype([("Real", "f8"), ("Imaginary", "f8")])
    rng = np.random.default_rng(1)
    with h5py.File(tmp_path / "input.h5", "w") as file:
        for name, shape in (("A", (5, 7)), ("B", (6, 5))):
            file[name] = rng.integers(-9, 9, (*shape, 2)).astype("f8").view(names)[..., 0]
    multiply(tmp_path / "input.h5", "-a", "B", "-b", "A", "-o", f"{tmp_path}/c.h5")
    assert client("Rscript", "-e", R_READS, folder=tmp_path) == "complex 7 6 TRUE"
