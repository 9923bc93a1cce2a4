#!/usr/bin/env python3
"""Multiply the matrices of an HDF5 file in blocks with h5py and NumPy or CuPy, as a user would.

    rival_blocked.py INPUT.h5 OUTPUT.h5 --memory BYTES [--gpu]
    rival_blocked.py INPUT.h5 --in-core

A tile of C stays in memory while slabs of A and B stream through it.  The tile, the product and the slabs
take --memory bytes of the host or, with --gpu, of the device.  With --in-core, both matrices are in host
memory, and only the product is timed, into memory that has been touched.  The times are printed as
JSON."""
import argparse
import ctypes
import json
import os
import resource
import time
from contextlib import contextmanager, suppress
from math import ceil, sqrt

import h5py
import numpy as np

ELEMENT = 8


def blocks(m, n, k, memory):
    """(rows, columns, slab): two tiles take half of the memory, and the slabs of A and B the rest."""
    elements = memory // ELEMENT
    edge = max(1, int(sqrt(elements / 4)))
    rows, cols = (ceil(x / ceil(x / edge)) for x in (m, n))
    slab = max(1, (elements - 2 * rows * cols) // (rows + cols))
    return rows, cols, ceil(k / ceil(k / slab))


class Clock:
    """Seconds per stage; each stage ends with a synchronization of the device."""

    def __init__(self, synchronize):
        self.seconds, self.synchronize = {"read": 0.0, "multiply": 0.0, "write": 0.0}, synchronize

    @contextmanager
    def __call__(self, stage):
        start = time.monotonic()
        yield
        self.synchronize()
        self.seconds[stage] += time.monotonic() - start


def multiply(source, target, memory, xp, clock):
    with h5py.File(source) as inputs, h5py.File(target, "w") as output:
        a, b = inputs["A"], inputs["B"]
        (m, k), n = a.shape, b.shape[1]
        c = output.create_dataset("C", (m, n), a.dtype)
        rows, cols, slab = blocks(m, n, k, memory)
        for i in range(0, m, rows):
            for j in range(0, n, cols):
                for p in range(0, k, slab):
                    with clock("read"):
                        x = xp.asarray(a[i:i + rows, p:p + slab])
                        y = xp.asarray(b[p:p + slab, j:j + cols])
                    with clock("multiply"):
                        if p:
                            tile += x @ y
                        else:
                            tile = x @ y
                    del x, y
                with clock("write"):
                    c[i:i + rows, j:j + cols] = tile if xp is np else tile.get()
        with clock("write"):
            output.flush()
            os.fsync(output.id.get_vfd_handle())


def multiply_in_core(source, clock):
    with h5py.File(source) as inputs:
        a, b = inputs["A"][:], inputs["B"][:]
    c = np.ones((a.shape[0], b.shape[1]))
    np.matmul(a[:256], b[:, :256])  # warm-up: starts the threads
    with clock("multiply"):
        np.matmul(a, b, out=c)


def blas():
    """The BLAS behind NumPy, and the kernels that it selected for this CPU."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = sorted({line.split()[-1] for line in maps if "blas" in line})
    for path in paths:
        for name in ("openblas_get_corename", "scipy_openblas_get_corename64_"):
            with suppress(AttributeError, OSError):
                function = getattr(ctypes.CDLL(path), name)
                function.restype = ctypes.c_char_p
                return f"OpenBLAS, {function().decode()} kernels"
    return " ".join(map(os.path.basename, paths))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target", nargs="?")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--in-core", action="store_true")
    args = parser.parse_args()
    if args.gpu:
        import cupy as xp
        xp.ones((64, 64)) @ xp.ones((64, 64))  # warm-up: loads cuBLAS
        clock, library = Clock(xp.cuda.Device().synchronize), f"CuPy {xp.__version__}"
    else:
        xp, clock, library = np, Clock(lambda: None), f"NumPy {np.__version__}, {blas()}"
    start = time.monotonic()
    if args.in_core:
        multiply_in_core(args.source, clock)
    else:
        multiply(args.source, args.target, args.memory, xp, clock)
    result = {f"{stage}_s": seconds for stage, seconds in clock.seconds.items()}
    result["wall_s"] = time.monotonic() - start
    result["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(result | {"library": library}))


if __name__ == "__main__":
    main()
