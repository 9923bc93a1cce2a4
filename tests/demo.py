"""make demo: runs the main job on two ranks with so little memory that it is out of core, and compares rows of its
product with NumPy's, whose own product of all would take minutes where its BLAS is the reference one."""
import subprocess
import sys

import h5py
import numpy as np

from launch import BUILD, command, environment

folder = BUILD / "demo"
folder.mkdir(exist_ok=True)
source, result = folder / "input.h5", folder / "input-C.h5"
M, N, K = 2500, 2100, 3000
ROWS = slice(None, None, 25)


def show(program, *args, ranks=0):
    line = command(program, *args, ranks=ranks)
    print("$", " ".join(line).replace(f"{BUILD}/", ""), flush=True)
    code = subprocess.run(line, env=environment(), stdin=subprocess.DEVNULL).returncode  # mpirun reads what was pasted next
    if code:
        sys.exit(code)


source.unlink(missing_ok=True)
show("h5mat", "gen", f"{source}:/A", "--rows", M, "--cols", K, "--seed", 1)
show("h5mat", "gen", f"{source}:/B", "--rows", K, "--cols", N, "--seed", 2)
show("dgemm_ooc", source, "--gpu-memory", "6M", "--host-memory", "24M", "--force", ranks=2)

with h5py.File(source) as inputs, h5py.File(result) as output:
    a, b, c = inputs["A"][ROWS], inputs["B"][:], output["C"][ROWS]
error = np.abs(c - a @ b)
bound = 2 * K * np.finfo(float).eps * (np.abs(a) @ np.abs(b))
print(f"NumPy's product of {len(a)} of the {M} rows: "
      f"largest difference {error.max():.2g}, {(error / bound).max():.2g} of the rounding bound")
if not (error <= bound).all():
    sys.exit("demo: FAILED")
print(f"demo: PASSED; the matrices take {8 * (M * K + K * N + M * N) >> 20} MiB, "
      "each of the two ranks worked in 24 MiB")
