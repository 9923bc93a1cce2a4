"""Matrices in files, runs of dgemm_ooc on them, and the products that NumPy expects."""
import hashlib
import json
import os
import subprocess
import time

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, PATIENCE, environment, run, start


def random(shape, dtype="f8", seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def whole(shape, dtype="f8", seed=0):
    """Small whole numbers without zero: sums of their products are exact, including the signs of zeros."""
    rng = np.random.default_rng([seed, *shape])
    return (rng.integers(1, 9, shape) * rng.choice([-1, 1], shape)).astype(dtype)


def write(path, **matrices):
    """Write datasets to an HDF5 file, by name; None is skipped."""
    with h5py.File(path, "a") as file:
        for name, matrix in matrices.items():
            if matrix is not None:
                file[name] = matrix
    return path


def read(path, name="C"):
    with h5py.File(path, "r") as file:
        return file[name][()]


def sparse(path, name, shape, dtype):
    """A contiguous dataset that is allocated in its file, but uses no disk space."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(path, "a") as file:
        kind = h5py.h5t.py_create(np.dtype(dtype))
        h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple(shape), plist)
    return path


def linked(path, folder):
    """Another name of operands that no test changes, which takes no space."""
    os.link(path, folder / path.name)
    return folder / path.name


def operands(path, m, n, k, dtype="f8", trans="NN", kind=random):
    """Write A, B and C0 of an m x n product, stored in the given transpositions; return them."""
    a = kind((k, m) if trans[0] == "T" else (m, k), dtype, 1)
    b = kind((n, k) if trans[1] == "T" else (k, n), dtype, 2)
    c = kind((m, n), dtype, 3)
    write(path, A=a, B=b, C=c)
    return a, b, c


def scalars(trans="NN", alpha=1, beta=0):
    return ["--transa", trans[0], "--transb", trans[1], f"--alpha={alpha}", f"--beta={beta}"]


def oriented(a, b, trans):
    return a.T if trans[0] == "T" else a, b.T if trans[1] == "T" else b


def product(a, b, c=None, trans="NN", alpha=1, beta=0):
    """alpha op(A) op(B) + beta C in float64, as BLAS defines it: operands multiplied by 0 are not read."""
    a, b = (x.astype("f8") for x in oriented(a, b, trans))
    ab = alpha * (a @ b) if alpha and a.size else np.zeros((len(a), b.shape[1]))
    return ab + beta * c.astype("f8") if beta else ab


def bound(a, b, c=None, trans="NN", alpha=1, beta=0, eps=None):
    """The rounding error bound of each element of the product: c k eps |A||B|."""
    a, b = (np.abs(x).astype("f8") for x in oriented(a, b, trans))
    largest = abs(alpha) * (a @ b) if alpha else np.zeros((len(a), b.shape[1]))
    if beta:
        largest += abs(beta) * np.abs(c).astype("f8")
    return (a.shape[1] + 3) * largest * eps


def multiplies(programs, folder):
    """Check that dgemm_ooc and h5mat in a folder work."""
    source = folder / "input.h5"
    operands(source, 50, 40, 30)
    done = subprocess.run([programs / "dgemm_ooc", source, "--device", "cpu"], env=environment(),
                          capture_output=True, text=True)
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr
    done = subprocess.run([programs / "h5mat", "info", source], capture_output=True, text=True)
    assert done.returncode == 0 and "50" in done.stdout, done.stderr


def multiply(source, *options, ranks=0, device="cpu", **env):
    """Run dgemm_ooc, which must succeed; return the report."""
    path = source.with_suffix(".json")
    done = run("dgemm_ooc", source, "--report", path, *options, ranks=ranks,
               DGEMM_OOC_DEVICE=device, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("RESULT: C complete"), done.stdout
    assert not list(source.parent.glob("*.part"))
    return json.loads(path.read_text())


def output_of(source):
    """The default output file."""
    return source.with_name(f"{source.stem}-C.h5")


def part_of(source):
    """The output's temporary name until it is complete."""
    return source.with_name("input-C.h5.part")


def start_late(*args, late="1", **how):
    """Like start, but `late` of 100 reads take 20 ms, so that the run does not end too early on any
    computer."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    return start(FAULTY, *args, DGEMM_OOC_TEST_FAULTS=f"pread:delay%{late}", **how)


def wait_until(condition, process):
    """Wait for a condition while the process runs."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    with open(f"/proc/{pid}/status") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1


def is_out_of_core(report):
    """Whether there are several super-blocks, slabs and strips, so that every loop of the pipeline repeats."""
    plan, element = report["plan"], 8 if report["problem"]["type"] == "double" else 4
    down, across = plan["super_blocks"]
    rows, cols = plan["tile"]
    return (down * across > 1 and plan["slabs"] > 1 and plan["strip_rows"] < rows
            and plan["slot_bytes"] < plan["strip_rows"] * cols * element)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def snapshot(folder):
    """The digests of all files in a folder."""
    return {path.name: digest(path) for path in folder.rglob("*") if path.is_file()}


def names(source):
    """The names of the input and all files beside it."""
    return {path.name for path in source.parent.iterdir()}


def assert_whole(source, reference):
    """C has the bits of the reference, and no other file is left behind."""
    np.testing.assert_array_equal(read(output_of(source)), reference[1])
    assert names(source) == {"input.h5", "input-C.h5"}


def at_work(source, process):
    """Wait until the files of the run are there, and a part of C has been written."""
    journal = part_of(source).with_suffix(".journal")
    wait_until(lambda: journal.exists() and part_of(source).exists() and part_of(source).stat().st_blocks, process)


def genotypes(samples, variants, missing=0.02, seed=1):
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 3, (samples, variants)).astype(float)
    found[rng.random(found.shape) < missing] = np.nan
    return found


def write_bed(path, matrix):
    """A row a variant, four samples a byte, as PLINK describes it."""
    of_copies = {0: 3, 1: 2, 2: 0}  # of the first allele
    samples, variants = matrix.shape
    codes = np.vectorize(lambda x: 1 if np.isnan(x) else of_copies[x])(matrix.T).astype(np.uint8)
    codes = np.hstack([codes, np.zeros((variants, -samples % 4), np.uint8)]).reshape(variants, -1, 4)
    path.write_bytes(b"\x6c\x1b\x01" + (codes << np.array([0, 2, 4, 6], np.uint8)).sum(2).astype(np.uint8).tobytes())
    path.with_suffix(".fam").write_text("".join(f"f {i} 0 0 0 -9\n" for i in range(samples)))
    path.with_suffix(".bim").write_text("\n".join(f"1 s{i} 0 {i} A C" for i in range(variants)))
    return path
