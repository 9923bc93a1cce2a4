#!/usr/bin/env python3
"""Measure the accuracy of products in residues: dgemm_ooc --algo ozaki:N and its ordinary kernels.

    residues.py OUT.csv [--type s] [--device gpu] [--k 8192,65536] [--side 48]

For each k and each distribution, lines like those of runs.csv hold the median and maximum error against a product in
long double, in units of u |A||B|, and the bound that the run states for each row, in units of u |a| |b| (2-norms).  The numbers are
r exp(phi g), with r uniform in (-1/2, 1/2) and g normal, or normal (phi "normal").  The bits, and so the errors, are
the same on every device."""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import h5py
import numpy as np

from runs import append, here

PROGRAM = Path(__file__).resolve().parents[2] / os.environ.get("DGEMM_OOC_BUILD", "build") / "dgemm_ooc"
SPREADS = [0, 0.5, 1, 2, 4, "normal"]
MODULI = {"f8": [None, 0, 12, 13, 14, 15, 16], "f4": [None, 0, 6, 7, 8]}  # 0: without N; None: sums


def numbers(rng, shape, phi, dtype):
    if phi == "normal":
        return rng.standard_normal(shape).astype(dtype)
    return ((rng.random(shape) - 0.5) * np.exp(phi * rng.standard_normal(shape))).astype(dtype)


def algorithm(moduli):
    return "auto" if moduli is None else f"ozaki:{moduli}" if moduli else "ozaki"


def multiply(source, moduli, device):
    output, report = source.with_name("C.h5"), source.with_name("report.json")
    done = subprocess.run([PROGRAM, source, "-o", output, "--force", "-q", "--device", device, "--report", report,
                           "--algo", algorithm(moduli)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert done.returncode in (0, 6), f"{algorithm(moduli)}: exit status {done.returncode}"  # 6: not checked
    with h5py.File(output) as file:
        return file["C"][:], json.loads(report.read_text())


def measure(folder, rng, k, phi, options):
    source = folder / "input.h5"
    dtype = "f4" if options.type == "s" else "f8"
    a, b = numbers(rng, (options.side, k), phi, dtype), numbers(rng, (k, options.side), phi, dtype)
    with h5py.File(source, "w") as file:
        file["A"], file["B"] = a, b
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    unit = np.abs(a).astype("f8") @ np.abs(b).astype("f8") * np.finfo(dtype).eps / 2
    for moduli in MODULI[dtype]:
        c, report = multiply(source, moduli, options.device)
        errors = np.abs(c - exact).astype("f8") / unit
        yield {"command": f"residues.py, --algo {algorithm(moduli)}", "shape": [options.side, options.side, k],
               "type": options.type, "algo": report["algorithm"], "phi": phi, "median_error": float(np.median(errors)),
               "max_error": float(errors.max()), "proven": report.get("proven_units")}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", choices="ds", default="d")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--k", default="8192,65536")
    parser.add_argument("--side", type=int, default=48)
    options = parser.parse_args()
    rng = np.random.default_rng(22)
    with tempfile.TemporaryDirectory() as folder:
        for k in map(int, options.k.split(",")):
            for phi in SPREADS:
                for row in measure(Path(folder), rng, k, phi, options):
                    append(options.out, [here() | row | {"question": "errors"}])
                    print("{shape} phi {phi} {command} {algo}: {median_error:.2g} / {max_error:.2g}, "
                          "proven {proven}".format(**row), flush=True)


if __name__ == "__main__":
    main()
