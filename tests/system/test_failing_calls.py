"""Calls of the system that fail once, also inside of the HDF5 library, which takes some of them for files that are not
there: a run ends with the right C, or with a complaint and without a C."""
import errno
import itertools
import os
import random
import resource

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, run
from matrices import output_of, part_of, read
from test_same_files import LAYOUTS, matrices, virtual

pytestmark = pytest.mark.skipif(not (BUILD / FAULTY).exists(), reason="the program with faults is not built: make test")
ERRORS = [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EACCES]
SEEDS = int(os.environ.get("DGEMM_OOC_TEST_SEEDS", "1"))
CASES = 8 * SEEDS


def prepare(tmp_path, layout):
    """The elements of C; operands in tmp_path/here."""
    here = tmp_path / "here"
    here.mkdir()
    a, b = matrices(1)
    layout(here / "input.h5", a, b)
    return here / "input.h5", a @ b, {"HDF5_VDS_PREFIX": str(here / "sources")}


def fail_at(number, error, source, env, *options, files=None):
    log = source.parent.parent / "done"
    log.unlink(missing_ok=True)
    done = run(FAULTY, source, *options, DGEMM_OOC_TEST_FAIL=f"{number}:{error}", DGEMM_OOC_TEST_DISTURBED="",
               DGEMM_OOC_TEST_FILES=str(files or source.parent), DGEMM_OOC_TEST_DONE=str(log), **env)
    return done, log.read_text().split() if log.exists() else None


def assert_right_or_refused(done, what, source, c):
    """`what`: the call that failed, and its file, which a complaint names; None: there was no such call."""
    said = done.stdout + done.stderr
    if done.returncode == 0:
        np.testing.assert_allclose(read(output_of(source)), c, rtol=1e-12, atol=1e-12, err_msg=f"{what}: {said}")
    else:
        assert done.returncode in (1, 3, 4) and "RESULT: C complete" not in done.stdout, (what, said)
        assert not output_of(source).exists() and "dgemm_ooc: " in done.stderr, (what, said)
        assert what and (os.path.basename(what[1]) in done.stderr or source.name in done.stderr), (what, said)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_call_fails(tmp_path, layout):
    source, c, env = prepare(tmp_path, layout)
    rng, most, failed = random.Random(layout.__name__), 100, 0
    for _ in range(CASES):
        number, error = rng.randint(1, most), rng.choice(ERRORS)
        done, what = fail_at(number, error, source, env, *rng.choice([[], ["--verify", "full"]]))
        assert_right_or_refused(done, what, source, c)
        failed += what is not None
        if not what:  # there are fewer calls
            most = max(number, 20)
        for path in output_of(source), part_of(source):
            path.unlink(missing_ok=True)
    assert failed >= CASES // 4


@pytest.mark.parametrize("error", [errno.ENOENT, errno.EACCES, errno.ENOLCK, errno.EAGAIN, errno.EMFILE, errno.EIO],
                         ids=errno.errorcode.get)
def test_a_call_on_a_source_fails(tmp_path, error):
    """As if the source was gone, unreadable or locked at that moment: at every moment, of some errors with seeds."""
    source, c, env = prepare(tmp_path, virtual)
    part, failed = source.parent / "sources/part1.h5", 0
    for number in itertools.count(1, 1 if SEEDS > 1 or error == errno.EACCES else 6):
        done, what = fail_at(number, error, source, env, files=part)
        if not what:  # there are fewer calls
            break
        assert_right_or_refused(done, what, source, c)
        assert done.returncode == 0 or "part1.h5" in done.stderr, (number, what, done.stderr)
        failed += done.returncode != 0
        output_of(source).unlink(missing_ok=True)
    assert number > 1 and failed


def test_more_files_than_may_be_open(tmp_path):
    """The library gives fill values for sources that it cannot open."""
    count, rows = 90, 2
    a, b = np.random.default_rng(1).standard_normal((count * rows, 40)), matrices(1)[1][:40]
    layout = h5py.VirtualLayout(a.shape, a.dtype)
    for i in range(count):
        part = a[i * rows:(i + 1) * rows]
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            file["X"] = part
        layout[i * rows:(i + 1) * rows] = h5py.VirtualSource(f"s{i}.h5", "X", part.shape)
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file.create_virtual_dataset("A", layout)
        file["B"] = b[:, :30]
    few = run("dgemm_ooc", source, wrapper=["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"])
    assert few.returncode == 4 and "Too many open files; raise their number (ulimit -n)" in few.stderr
    assert "90 files, but only 64 may be open here" in few.stderr and not output_of(source).exists()
    same = run("h5mat", "diff", f"{source}:/A", f"{source}:/A", wrapper=["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"])
    assert same.returncode == 4 and "ulimit -n" in same.stderr
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 200:  # the program raises its own
        enough = run("dgemm_ooc", source, wrapper=["sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh"])
        assert enough.returncode == 0, enough.stderr
        np.testing.assert_allclose(read(output_of(source)), a @ b[:, :30], rtol=1e-12, atol=1e-12)
