"""The library: what the program does, in a process that is somebody else's and stays as it was."""
import ctypes
import json
import locale
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import launch
from cases import each
from launch import BUILD, MPI, ROOT, SANITIZED, environment, run
from matrices import operands, output_of, read, write

pytestmark = pytest.mark.skipif(SANITIZED, reason="Python would have to be linked with the sanitizer")

LIBRARY = BUILD / "libdgemm_ooc.so"
HEADER = ROOT / "src/library/dgemm_ooc.h"
OK, USAGE, INPUT, RESOURCES, WRONG, STOPPED = 0, 2, 3, 4, 5, 75
MESSAGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_double, ctypes.c_double)
LONG = ["--host-memory", "20M", "--tile", "64x64x16", "--device", "cpu"]  # of operands that take seconds so


def load():
    library = ctypes.CDLL(str(LIBRARY))
    for name in "error", "report", "version_text":
        getattr(library, f"dgemm_ooc_{name}").restype = ctypes.c_char_p
    return library


class Product:
    """One product of this process."""

    def __init__(self, *words, ranks=None):
        self.api, self.handle = load(), ctypes.c_void_p()
        self.created = self.api.dgemm_ooc_create(ctypes.byref(self.handle), ranks)
        self.add(*words)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.api.dgemm_ooc_destroy(self.handle)

    def __getattr__(self, name):
        function = getattr(self.api, f"dgemm_ooc_{name}")
        return lambda *arguments: function(self.handle, *arguments)

    def add(self, *words):
        words = [str(word).encode() for word in words]
        return self.set_arguments(len(words), (ctypes.c_char_p * len(words))(*words))

    def said(self):
        return self.error().decode()

    def number(self, name):
        value = ctypes.c_double()
        assert self.api.dgemm_ooc_number(self.handle, name.encode(), ctypes.byref(value)) == OK
        return value.value

    def listen(self):
        """The lines of messages, which this list gets."""
        lines = []
        self.kept = MESSAGE(lambda user, level, line: lines.append((level, line.decode())))
        self.on_message(self.kept, None)
        return lines

    def follow(self, function):
        self.kept_progress = PROGRESS(lambda user, *now: function(*now))
        self.on_progress(self.kept_progress, None)


@pytest.fixture
def source(tmp_path):
    operands(tmp_path / "input.h5", 97, 101, 211)
    return tmp_path / "input.h5"


@pytest.fixture
def long_source(tmp_path):
    operands(tmp_path / "input.h5", 500, 450, 3000)
    return tmp_path / "input.h5"


def test_a_product_and_what_is_known_of_it(source):
    """The bits are the program's; plan and check are its dry run and its check of a C that is there."""
    run("dgemm_ooc", source)
    expected = read(output_of(source)).tobytes()
    with Product() as product:
        assert product.created == OK
        for option, value in ("a", f"{source}:/A"), ("b", f"{source}:/B"), ("o", source.parent / "called.h5:/x/C"), ("force", None):
            product.set(option.encode(), str(value).encode() if value else None)
        assert product.plan() == OK and product.number("predicted.wall_s") > 0
        assert product.run() == OK and product.said() == ""
        report = json.loads(product.report())
        assert report["problem"]["k"] == 211 and report["wall_s"] == product.number("wall_s")
        assert product.check() == OK
        assert product.api.dgemm_ooc_number(product.handle, b"problem.none", ctypes.byref(ctypes.c_double())) == USAGE
    assert read(source.parent / "called.h5", "/x/C").tobytes() == expected


def test_messages_are_what_the_program_prints(source):
    printed = run("dgemm_ooc", source, "--check-seed", 1, DGEMM_OOC_VERBOSE="no").stdout.splitlines()
    with Product(source, "--force", "--check-seed", 1, "--device", "cpu") as product:
        lines = product.listen()
        assert product.run() == OK
    words = [line.split()[0] for line in printed]
    assert [line.split()[0] for level, line in lines] == words and {level for level, _ in lines} == {1}


def test_what_the_process_has_stays(source, capfd):
    """Signals, environment, locale, folder, mask, binding and standard streams."""
    def state():
        status = Path("/proc/self/status").read_text()
        return ([line for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn", "SigCgt", "Umask", "Cpus_allowed:"))],
                os.environ.copy(), Path("/proc/self/environ").read_bytes(), os.getcwd(), locale.setlocale(locale.LC_ALL),
                signal.getsignal(signal.SIGINT), os.sched_getaffinity(0), threading.active_count())
    before = state()
    with Product(source, "--force", "-v", "--device", "cpu") as product:
        assert product.run() == OK and product.check() == OK and product.plan() == OK
        product.add("--nonsense")
        assert product.run() == USAGE
    assert state() == before and capfd.readouterr() == ("", "")


def resident():
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def test_a_hundred_runs_leave_nothing(source):
    """Neither memory nor descriptors nor threads; h5py reads what they make, and the file that they read."""
    def once(reader):
        with Product(source, "--force", "--device", "cpu", "--verify", "full") as product:
            assert product.run() == OK, product.said()
            product.add("--host-memory", "1000")
            assert product.run() == RESOURCES
            product.add("--tile", "nonsense")
            assert product.run() == USAGE
        assert reader["A"][0, 0] == reader["A"][0, 0] and read(output_of(source)).shape == (97, 101)

    def things():
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    with h5py.File(source) as reader:
        for _ in range(10):
            once(reader)
        before, memory = things(), resident()
        for _ in range(100):
            once(reader)
        assert things() == before and resident() - memory < 3000  # KiB


def wrong(source):
    """Words, the status, and part of the sentence."""
    folder = source.parent
    write(folder / "shapes.h5", A=np.ones((3, 4)), B=np.ones((5, 6)))
    (folder / "there.h5").write_bytes(b"mine")
    return [
        ([], USAGE, "INPUT.h5"),
        ([folder / "none.h5"], INPUT, "none.h5"),
        ([source, "-a", "none"], INPUT, "no dataset"),
        ([folder / "shapes.h5"], INPUT, "inner dimensions"),
        ([source, "-o", folder / "there.h5"], INPUT, "there.h5"),
        ([source, "-o", folder / "none/C.h5"], INPUT, "none"),
        ([source, "--host-memory", "1000"], RESOURCES, "give at least --host-memory"),
        ([source, "--device", "gpu"], RESOURCES, "GPU"),
        ([source, "--alpha", "x"], USAGE, "--alpha"),
        ([source, "-o", ""], USAGE, "--output"),
        ([source, "--hostmemory", "1G"], USAGE, "did you mean --host-memory"),
        ([source, "--help"], USAGE, "for the program alone"),
        ([source, "--report", "-"], USAGE, "does not print"),
        ([source, "--from-report", folder / "r.json", "--html", folder / "r.html"], USAGE, "for the program alone"),
    ]


def test_what_is_wrong_is_said(source):
    """Nothing is left of it, and the product can be run when it is mended."""
    before = set()
    for words, status, says in wrong(source):
        before = before or set(source.parent.iterdir())
        with Product(*words) as product:
            assert product.run() == status and says in product.said(), (words, product.said())
            assert set(source.parent.iterdir()) == before
            if words == [source, "-a", "none"]:
                product.add("-a", "A")
                assert product.run() == OK
                output_of(source).unlink()


def test_a_stop_before_the_run_and_progress_that_asks_for_one(long_source):
    run("dgemm_ooc", long_source, *LONG)
    expected, phases, count = read(output_of(long_source)).tobytes(), set(), [0]

    def follow(phase, share, left):
        phases.add(phase)
        count[0] += share > 0.2
        return share > 0.2

    output = long_source.parent / "called.h5"
    with Product(long_source, "-o", output, *LONG) as product:
        product.stop()
        assert product.plan() == OK
        assert product.run() == STOPPED, product.said()
        assert not output.exists()
        product.follow(follow)
        assert product.run() == STOPPED, product.said()
        assert count[0] > 0 and b"product" in phases
        product.on_progress(None, None)
        assert product.run() == OK and json.loads(product.report())["restart"]["compared_bytes"] > 0
    assert read(output).tobytes() == expected


def test_threads(long_source):
    """A second product is refused while one is at work; any thread can stop that one."""
    with Product(long_source, *LONG) as product, Product(long_source, *LONG) as other:
        begun, statuses = threading.Event(), []
        product.follow(lambda phase, share, left: begun.set() or 0)
        thread = threading.Thread(target=lambda: statuses.append(product.run()))
        thread.start()
        assert begun.wait(launch.PATIENCE)
        assert other.run() == USAGE and "at work" in other.said()
        product.stop()
        thread.join(launch.PATIENCE)
        assert statuses == [STOPPED]
        assert other.run() == OK, other.said()


def test_a_forked_process(source):
    with Product(source, "--force", "--device", "cpu") as product:
        child = os.fork()
        if child == 0:
            os._exit(product.run() == USAGE and "not created in this process" in product.said())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert product.run() == OK


def test_a_run_knows_nothing_of_the_one_before(source):
    """Neither what failed, nor its limits.  What was read wrong once may be right the next time."""
    with h5py.File(source, "a") as file:
        a = file["A"][:]
        del file["A"]
        data = file.create_dataset("A", data=a, chunks=(50, 211), compression="gzip")
        place = data.id.get_chunk_info(0)
    whole = source.read_bytes()
    output = output_of(source)
    with Product(source, "--force", "--device", "cpu", "--verify", "off") as product:
        with open(source, "r+b") as file:
            file.seek(place.byte_offset)
            file.write(bytes(place.size))
        assert product.run() == INPUT, product.said()
        source.write_bytes(whole)
        product.add("--max-time", "1s")
        assert product.run() == OK, product.said()
    time.sleep(1.2)
    with Product(source) as product, h5py.File(output, "r+") as file:
        file["C"][5, 5] = 1e9
        file.close()
        assert product.check() == WRONG, product.said()


FULL = f"""
import resource, sys
sys.path[:0] = {[str(ROOT / "tests"), str(ROOT / "tests/system")]!r}
from test_library import Product
resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
with Product(*sys.argv[1:]) as product:
    print(product.run(), product.said())
"""


def test_a_file_that_may_not_grow(source):
    """No signal ends the process, not even where the host has not thought of it."""
    hosts = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    done = subprocess.run([sys.executable, "-c", hosts + FULL, source, "--device", "cpu"], capture_output=True, text=True,
                          env=environment(DGEMM_OOC_BUILD=str(BUILD)))
    assert done.returncode == 0 and done.stdout.startswith("4 ") and "ulimit -f" in done.stdout, done


def test_only_its_functions_are_seen():
    done = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    declared = set(re.findall(r"^(?:enum|int|const|void)[^;(]*\b(dgemm_ooc_\w+)\(", HEADER.read_text(), re.M))
    assert names == declared
    assert load().dgemm_ooc_version() == int(re.search(r"DGEMM_OOC_VERSION (\d+)", HEADER.read_text())[1])


@each("compiler", [["gcc", "-std=c11", "-xc"], ["g++", "-std=c++11", "-xc++"]])
def test_the_header_needs_no_other(tmp_path, compiler):
    (tmp_path / "unit").write_text('#include <dgemm_ooc.h>\nint main(void) { return dgemm_ooc_version() < 0; }\n')
    done = subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{HEADER.parent}", "-c", tmp_path / "unit",
                           "-o", tmp_path / "unit.o"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@each("compiler, source, transposed", [
    ("mpicc.mpich" if MPI == "MPICH" else "mpicc", "multiply.c", True),
    ("mpifort.mpich" if MPI == "MPICH" else "mpifort", "multiply.f90", False)])
def test_examples_on_three_ranks(tmp_path, prefix, compiler, source, transposed):
    """They are compiled as they say, with what is installed."""
    a, b, _ = operands(tmp_path / "input.h5", 97, 97, 97)
    env = environment(3, PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig", LD_LIBRARY_PATH=f"{prefix}/lib")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "dgemm_ooc"], env=env, capture_output=True, text=True, check=True)
    built = subprocess.run([compiler, "-Wall", ROOT / "src/library/examples" / source, *flags.stdout.split(), "-o", tmp_path / "example"],
                           env=env, capture_output=True, text=True, cwd=tmp_path)
    assert built.returncode == 0 and "arning" not in built.stderr, built.stderr
    done = subprocess.run(["mpirun", "-n", "3", tmp_path / "example", "input.h5", "C.h5"], env=env, cwd=tmp_path,
                          capture_output=True, text=True, timeout=launch.PATIENCE)
    assert done.returncode == 0 and not done.stderr, done.stderr
    expected = a.T @ b if transposed else b @ a
    assert np.allclose(read(tmp_path / "C.h5"), expected, rtol=1e-9, atol=1e-9)


def test_communicators(tmp_path):
    """A part of the ranks, in another order, whose communicator its owner frees; an error of one rank is that of all; ranks
    that ask for another product are told; MPI that has not begun is refused."""
    if not (BUILD / "tests/system/communicators").exists():
        pytest.skip("the program with communicators is not built: make test")
    operands(tmp_path / "input.h5", 97, 101, 211)
    run("dgemm_ooc", tmp_path / "input.h5")
    done = subprocess.run(launch.command("tests/system/communicators", tmp_path / "input.h5", tmp_path / "called.h5", ranks=4),
                          env=environment(4), capture_output=True, text=True, timeout=launch.PATIENCE)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("on rank")]
    before, single, missing, other, report, product, again = lines
    assert before.startswith("before MPI: 2: MPI is not started")
    assert single.startswith("nobody's: 2: ")
    assert re.match("missing: 3 on 3 of 3: .*/none", missing)
    assert re.match("other: 2 on 3 of 3: .*another command line", other)
    assert re.match(r"report: [1-4] on 3 of 3: .*/none/report.json", report)
    assert product == "product: 0 on 3 of 3: " and again == "again: 0 on 2 of 2: "
    assert read(tmp_path / "called.h5").tobytes() == read(output_of(tmp_path / "input.h5")).tobytes()


def test_an_mpi_for_one_thread(tmp_path):
    if not (BUILD / "tests/system/communicators").exists():
        pytest.skip("the program with communicators is not built: make test")
    done = subprocess.run(launch.command("tests/system/communicators", ranks=1), env=environment(1), capture_output=True,
                          text=True, timeout=launch.PATIENCE)
    assert done.returncode == 0 and done.stdout.startswith("single: 2: MPI was started without MPI_THREAD_SERIALIZED"), done


def test_variables_count(source, monkeypatch):
    """As for the program."""
    monkeypatch.setenv("DGEMM_OOC_ALPHA", "2")
    with Product(source, "--force", "--device", "cpu") as product:
        assert product.run() == OK
        twice = read(output_of(source))
        monkeypatch.setenv("DGEMM_OOC_ALPHA", "x")
        assert product.run() == USAGE and "DGEMM_OOC_ALPHA" in product.said()
    with h5py.File(source) as file:
        assert np.allclose(twice, 2 * file["A"][()] @ file["B"][()])
