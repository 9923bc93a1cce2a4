"""Products of a matrix with its transpose: half of the products, with the bits of the general product.

DGEMM_OOC_TEST_SEEDS=N tests N random configurations and N interrupted runs, instead of a few."""
import json
import os
import random
import re
import shutil
import signal
import time

import h5py
import numpy as np
import pytest

from cases import are_few, each
from launch import BUILD, FAULTY, PATIENCE, ROOT, WAYS, run
from matrices import digest, multiply, output_of, part_of, read, snapshot, start_late, wait_until
from matrices import random as normal
from ranks import pids

N, K = 700, 900
SCALARS = ["--alpha", "1.3", "--beta", "0.7"]
SEEDS = int(os.environ.get("DGEMM_OOC_TEST_SEEDS", "3"))


def seeds(alone):
    """Of interrupted runs, which take long; where cases are few each file has another one."""
    return [alone] if are_few() else range(SEEDS)


OFF = ["--symmetric", "off"]
ON = ["--symmetric", "on"]
SQUARE = ["-b", "A", "--transb", "T", *ON]  # A A^T


def make(path, n=N, k=K, dtype="f8", trans="T", **storage):
    """A file with A, of which A A^T (trans T: of B) or A^T A is n x n, and with C."""
    with h5py.File(path, "w") as file:
        file.create_dataset("A", data=normal((n, k) if trans == "T" else (k, n), dtype), **storage)
        file["C"] = normal((n, n), dtype, 3)
    return path


def options(trans):
    return ["-b", "A", "--transb" if trans == "T" else "--transa", "T", *ON]


def result(source, *more, **how):
    output = source.with_name("result.h5")
    report = multiply(source, *more, "-o", output, "--force", **how)
    return read(output), report


known = {}  # the last few general products


def general_result(source, *more):
    """A product that is multiplied once for files of the same content."""
    key = digest(source), more
    if key not in known:
        if len(known) == 8:
            known.pop(next(iter(known)))
        known[key] = result(source, *more, *OFF)
    return known[key]


def same(source, trans="T", *more, scalars=SCALARS, **how):
    """The product must have the bits of the general one; return both reports."""
    reference, general = general_result(source, *options(trans), *scalars)
    got, report = result(source, *options(trans), *scalars, *more, **how)
    assert got.tobytes() == reference.tobytes()
    assert report["checksum"] == general["checksum"] and report["verdict"] == general["verdict"]
    assert report["problem"]["symmetric"] and not general["problem"]["symmetric"]
    return report, general


@each("dtype", ["f4", "f8"])
@each("trans", "TN")
def test_half_of_the_products(tmp_path, dtype, trans):
    report, general = same(make(tmp_path / "input.h5", dtype=dtype, trans=trans), trans, scalars=[])
    flops = report["stages"]["gemm"]["flops"]
    assert flops == N * (N + 1) * K and general["stages"]["gemm"]["flops"] == 2 * N * N * K
    assert report["stages"]["read"]["bytes"] == general["stages"]["read"]["bytes"] / 2
    assert report["stages"]["write"]["bytes"] == general["stages"]["write"]["bytes"]
    c = read(tmp_path / "result.h5")
    assert np.array_equal(c, c.T)


def test_the_run_says_so(tmp_path):
    source = make(tmp_path / "input.h5", 200, 100)
    for more in [], ["--dry-run"]:
        assert "symmetric: half of the products" in run("dgemm_ooc", source, *SQUARE, *more).stdout
        assert "symmetric:" not in run("dgemm_ooc", source, *SQUARE, *OFF, "--force", *more).stdout


SLOW_BUS = {"name": "slow bus", "in_bytes_per_s": 5e7}  # for which bands are cut
# For which there is one band where strips are small: the columns' panel of all of its parts has
# what their rows need.
SLOW_PRODUCT = {"name": "slow product", "disk_read_bytes_per_s": 1e8, "gemm_double_flops_per_s": 1e8}
IN_MEMORY = SLOW_PRODUCT | {"name": "files in memory", "files_in_memory": True, "disk_run_bytes": 1}


def machine(folder, rates):
    path = folder / "machine.json"
    path.write_text(json.dumps(rates))
    return ["--machine", path]


def configuration(rng, folder):
    rates = rng.choice([None, SLOW_BUS, SLOW_PRODUCT, IN_MEMORY])
    more = machine(folder, rates) if rates else []
    more += ["--gpu-memory", rng.choice(["1M", "2M", "4M", "64M"]), "--io", rng.choice(WAYS)]
    if rng.random() < 0.3:
        more += ["--verify", rng.choice(["full", "off"])]
    return more, rng.randint(0, 8), {"DGEMM_OOC_TEST_NODE": str(rng.randint(1, 8))} if rng.random() < 0.5 else {}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_bits_in_random_configurations(tmp_path, seed):
    rng = random.Random(seed)
    n, k = rng.choice([1, 2, 63, 65, 333, 700, 900]), rng.choice([1, 17, 600, 2000])
    dtype, trans = rng.choice(["f4", "f8"]), rng.choice("TN")
    storage = dict(chunks=(min(n, k, 7), min(n, k, 50)), compression="gzip") if rng.random() < 0.3 else {}
    scalars = rng.choice([[], SCALARS, ["--alpha", "-0.5"]])
    more, ranks, env = configuration(rng, tmp_path)
    source = make(tmp_path / "input.h5", n, k, dtype, trans, **storage)
    reference, _ = general_result(source, *options(trans), *scalars)
    if not env or not ranks or (BUILD / FAULTY).exists():
        got, report = result(source, *options(trans), *scalars, *more, ranks=ranks, **env)
        assert got.tobytes() == reference.tobytes() and report["problem"]["symmetric"], (more, ranks, env)


@pytest.mark.parametrize("ranks, memory, rates", [
    (1, "64M", {}), (2, "64M", {}), (3, "64M", {}), (8, "64M", {}), (3, "1M", {}), (9, "64M", SLOW_BUS),
    (8, "64M", SLOW_BUS)])
def test_each_byte_is_read_as_planned(tmp_path, ranks, memory, rates):
    source = make(tmp_path / "input.h5")
    for scalars in [], SCALARS:
        report, _ = same(source, "T", "--gpu-memory", memory, *machine(tmp_path, rates or {"name": "this"}),
                         scalars=scalars, ranks=ranks)
        plan, stages = report["plan"], report["stages"]
        assert (plan["grid"][1] > 1) == bool(rates) and (plan["grid"][0] == 1) == (ranks == 1)
        if memory == "64M":  # a single triangle: the plan is of all of C
            assert stages["read"]["bytes"] == plan["read_bytes"] == 8 * N * (K + N * bool(scalars))
            assert stages["in"]["bytes"] == plan["in_bytes"]
        assert stages["write"]["bytes"] == 8 * N * N


def names(folder):
    """Pairs of names of one matrix, and of equal ones that are not the same."""
    source = make(folder / "input.h5", 50, 40)
    with h5py.File(source, "a") as file:
        file["hard"] = file["A"]
        file["soft"] = h5py.SoftLink("/A")
        file["copy"] = file["A"][()]
        file["outside"] = h5py.ExternalLink("other.h5", "/A")
        file["chunked"] = h5py.ExternalLink("chunked.h5", "/A")
        file["chunked2"] = h5py.ExternalLink("chunked2.h5", "/A")
    for name in "chunked.h5", "chunked2.h5":
        with h5py.File(folder / name, "w") as file:
            file.create_dataset("A", data=normal((50, 40)), chunks=(5, 5))
    shutil.copy(source, folder / "other.h5")
    os.link(source, folder / "link.h5")
    os.symlink(source, folder / "symlink.h5")
    return source


@pytest.mark.parametrize("a, b, symmetric", [
    ("A", "A", True), ("A", "hard", True), ("soft", "hard", True), ("A", "link.h5:/A", True),
    ("symlink.h5:/soft", "link.h5:/A", True), ("other.h5:/A", "outside", True), ("A", "copy", False),
    ("A", "outside", False), ("A", "other.h5:/A", False), ("chunked", "chunked.h5:/A", True),
    ("chunked", "chunked2", False)])
def test_one_matrix_by_several_names(tmp_path, monkeypatch, a, b, symmetric):
    source = names(tmp_path)
    monkeypatch.chdir(tmp_path)
    report = multiply(source, "-a", a, "-b", b, "--transb", "T", *(ON if symmetric else []))
    assert report["problem"]["symmetric"] == symmetric
    matrix = {"c": "chunked.h5"}.get(a[0])
    first = read(matrix or source, "A")
    second = read("chunked2.h5" if b == "chunked2" else matrix or source, "A")
    assert np.allclose(read(output_of(source)), first @ second.T)


@each("more", [OFF, ["--tile", "20x20x16"], ["--grid", "1x1"],
               ["--transa", "T"], ["--alpha", "0"]])
def test_other_products_are_general(tmp_path, more):
    source = make(tmp_path / "input.h5", 50, 50)
    report = multiply(source, "-b", "A", "--transb", "T", *more)
    assert not report["problem"]["symmetric"]
    if more[0] in ("--tile", "--grid", "--transa"):
        done = run("dgemm_ooc", source, *SQUARE, *more, "--force")
        assert done.returncode == (3 if more[0] == "--transa" else 2) and "--symmetric on" in done.stderr


def test_without_an_option(tmp_path):
    """As the README says it: half of the products, and the same bits."""
    source = make(tmp_path / "input.h5", 1500, 1500)
    for trans in ["--transb", "T"], ["--transa", "T"]:
        reference, general = general_result(source, "-b", "A", *trans)
        got, report = result(source, "-b", "A", *trans)
        assert got.tobytes() == reference.tobytes() and report["problem"]["symmetric"]
        assert report["stages"]["gemm"]["flops"] == general["stages"]["gemm"]["flops"] * 1501 / 3000


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("output, words", [("input.h5:/A", "is one of the inputs"),
                                           ("there.h5", "holds other objects than C")])
def test_what_is_wrong_is_said_before_the_work(tmp_path, output, words, ranks):
    """Also where the plan chooses between half and all of the products; nothing is replaced."""
    source = make(tmp_path / "input.h5", 200, 100)
    shutil.copy(source, tmp_path / "there.h5")
    before = snapshot(tmp_path)
    force = ["--force"] if "input" in output else []
    done = run("dgemm_ooc", source, "-b", "A", "--transb", "T", "-o", tmp_path / output, *force, ranks=ranks)
    assert done.returncode == 3 and words in done.stderr and not done.stdout, done.stdout
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("ranks, symmetric", [(1, True), (32, False)])
def test_general_where_that_is_faster(tmp_path, ranks, symmetric):
    """For 32 GPUs most of the time goes into writing C, which a general product does beside later tiles."""
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.create_dataset("A", (131072, 65536), "f8", chunks=(2048, 2048))  # takes no space
    rates = json.loads((ROOT / "jobs/machines/h200-node.json").read_text())
    rates |= {"disk_read_bytes_per_s": 45e9, "disk_write_bytes_per_s": 20e9}
    said = {}
    for more in [], ON, OFF:
        done = run("dgemm_ooc", tmp_path / "input.h5", "-b", "A", "--transb", "T", *more, "--dry-run", "--ranks", ranks,
                   "--ranks-per-node", min(ranks, 8), *machine(tmp_path, rates))
        assert done.returncode == 0, done.stderr
        said[" ".join(more)] = "symmetric: half" in done.stdout
    assert said == {"": symmetric, " ".join(ON): True, " ".join(OFF): False}


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_the_full_check_finds_what_was_written_wrong(tmp_path, faulty, at):
    """Mirrors, too, which no other check covers."""
    source = make(tmp_path / "input.h5", 300, 200)
    done = run(FAULTY, source, *SQUARE, "--verify", "full", "--io", "buffered",
               DGEMM_OOC_TEST_FAULTS=f"pwrite:flip@{at}", DGEMM_OOC_TEST_FAULT_FILE=".part")
    assert done.returncode == 5, done.stdout + done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 3, 8])
@pytest.mark.parametrize("trans", "TN")
@pytest.mark.parametrize("dtype, k", [("f8", 300), ("f4", 3000)])
def test_nan_and_inf_stay_where_they_belong(tmp_path, trans, ranks, dtype, k):
    source = make(tmp_path / "input.h5", 400, k, dtype, trans)
    with h5py.File(source, "a") as file:
        a = file["A"][()]
        x = a if trans == "T" else a.T
        x[3, k // 2], x[100, 7], x[150, k - 5] = np.nan, np.inf, -np.inf
        file["A"][...] = a
    with np.errstate(invalid="ignore"):
        expected = x @ x.T
    got, report = result(source, *options(trans), *machine(tmp_path, SLOW_BUS if ranks == 8 else {"name": "this"}),
                         ranks=ranks)
    _, general = general_result(source, *options(trans))
    assert general["elements_not_finite"] == report["elements_not_finite"]
    assert (np.isfinite(got) == np.isfinite(expected)).all()
    assert report["elements_not_finite"] == (~np.isfinite(expected)).sum() and report["verdict"] == "PASSED"


def test_counts_of_a_triangle_that_is_multiplied_again(tmp_path, faulty):
    source = make(tmp_path / "input.h5", 400, 300)
    with h5py.File(source, "a") as file:
        file["A"][[3, 150, 390], 5] = np.nan
    _, general = general_result(source, *options("T"))
    report = tmp_path / "faulty.json"
    got, err = faulty_result(source, "gemm:flip@2", "--report", report, ranks=3, DGEMM_OOC_TEST_FAULT_RANK="1")
    found = json.loads(report.read_text())
    assert "is computed again" in err and found["elements_not_finite"] == general["elements_not_finite"] == 2391


ON_GPU = [
    (0, "f8", "T", []), (2, "f8", "N", SCALARS), (0, "f4", "N", []), (3, "f4", "T", ["--gpu-memory", "4M"]),
    (0, "f8", "T", ["--algo", "ozaki"])]


@pytest.mark.gpu
@pytest.mark.parametrize("ranks, dtype, trans, more", ON_GPU)
def test_a_gpu_gives_the_bits_of_the_cpu(tmp_path, gpu, ranks, dtype, trans, more):
    source = make(tmp_path / "input.h5", 300, 200, dtype, trans)
    algo = more if "ozaki" in more else []
    scalars = more if more == SCALARS else []
    reference, _ = general_result(source, *options(trans), *scalars, *algo)
    got, report = result(source, *options(trans), *more, ranks=ranks, device=gpu)
    assert got.tobytes() == reference.tobytes() and report["problem"]["symmetric"]


@pytest.mark.singly
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("ranks", [0, 3])
def test_residues(tmp_path, dtype, ranks):
    source = make(tmp_path / "input.h5", 200, 9000, dtype)
    reference, _ = general_result(source, *SQUARE, *SCALARS, "--algo", "ozaki")
    got, report = result(source, *SQUARE, *SCALARS, "--algo", "ozaki", ranks=ranks)
    assert got.tobytes() == reference.tobytes() and report["problem"]["symmetric"]


@pytest.fixture
def faulty():
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")


def stop(source, seed, *more, ranks=0, memory="16M", number=signal.SIGUSR2, until=None):
    """Start a run that takes a while, and stop or kill it, when `until` holds or soon.  Returns its exit code."""
    rng = random.Random(seed)
    for name in part_of(source), source.with_name("input-C.h5.journal"):
        assert not name.is_symlink()
    with start_late(source, *SQUARE, *SCALARS, "--gpu-memory", memory, *more, late="20", ranks=ranks) as process:
        wait_until(lambda: part_of(source).exists(), process)
        if until:
            wait_until(until, process)
        else:
            time.sleep(rng.uniform(0.1, 1.0))
        running = pids(process, ranks)
        if process.poll() is None and running:
            os.kill(running[-1], number)
        process.communicate(timeout=PATIENCE)
    return process.returncode


@pytest.mark.parametrize("seed", seeds(0))
def test_interrupted_runs_leave_the_same_bits(tmp_path, faulty, seed):
    """Stopped and killed with any ranks and memory, also with less of it than before."""
    rng = random.Random(seed)
    source = make(tmp_path / "input.h5", 500, 6000)
    reference, _ = result(source, *SQUARE, *SCALARS, *OFF)
    (tmp_path / "result.h5").unlink()
    for attempt in range(4):
        code = stop(source, 10 * seed + attempt, "--checkpoint", rng.choice(["0.1s", "10m"]),
                    ranks=rng.choice([0, 0, 2, 3]), memory=rng.choice(["2M", "4M", "16M", "64M"]),
                    number=rng.choice([signal.SIGUSR2, signal.SIGUSR2, signal.SIGKILL]))
        if code == 0:
            break
    done = run("dgemm_ooc", source, *SQUARE, *SCALARS, "--gpu-memory", "8M", ranks=rng.choice([0, 2]))
    assert done.returncode == 0 and "damaged" not in done.stderr, done.stderr
    assert read(output_of(source)).tobytes() == reference.tobytes()
    done = run("dgemm_ooc", "--check-only", source, "-b", "A")
    assert done.returncode == 0 and "checksum equal" in done.stdout, done.stderr


@pytest.mark.parametrize("ranks, memory, later, pieces", [
    (0, "2M", 0, 3), (3, "64M", 0, 1), (3, "1M", 2, 3), (2, "64M", 8, 1)])
def test_saved_sums_serve_other_ranks_and_less_memory(tmp_path, faulty, ranks, memory, later, pieces):
    """They are of a triangle, which may not fit then, and nothing of them is lost."""
    source = make(tmp_path / "input.h5", 500, 30000)
    reference, _ = general_result(source, *SQUARE, *SCALARS)
    assert stop(source, 1, "--checkpoint", "0.1s", memory="64M", ranks=ranks) == 75
    journal = source.with_name("input-C.h5.journal").read_text()
    assert re.findall(r'"k":(\d+)', journal)[-1] != "0"
    done = run("dgemm_ooc", source, *SQUARE, *SCALARS, "--gpu-memory", memory, ranks=later,
               *(machine(tmp_path, SLOW_BUS) if later == 8 else []))
    assert done.returncode == 0 and "damaged" not in done.stderr, done.stderr
    percent = float(re.search(r"Restart     ([\d.]+) % is done", done.stdout)[1])
    assert percent > 0 and int(re.search(r"(\d+) pieces? left", done.stdout)[1]) >= pieces
    assert read(output_of(source)).tobytes() == reference.tobytes()


def test_damaged_sums_are_not_used(tmp_path, faulty):
    source = make(tmp_path / "input.h5", 500, 30000)
    reference, _ = general_result(source, *SQUARE, *SCALARS)
    assert stop(source, 1, "--checkpoint", "0.1s", memory="64M") == 75
    for place in source.parent.glob("*.sums*"):
        with open(place, "r+b") as file:
            file.seek(8 * 500 * 100 + 8 * 300)  # above the diagonal
            file.write(b"\x55" * 8)
    done = run("dgemm_ooc", source, *SQUARE, *SCALARS, "--gpu-memory", "2M")
    assert done.returncode == 0 and "are damaged; they are computed again" in done.stderr, done.stderr
    assert read(output_of(source)).tobytes() == reference.tobytes()


def test_damage_of_what_is_complete_is_found(tmp_path, faulty):
    """Anywhere, above the diagonal, too; all of C is computed again."""
    source = make(tmp_path / "input.h5", 400, 1500)
    reference, _ = general_result(source, *SQUARE, *SCALARS)
    assert stop(source, 0, memory="1M", until=lambda: has_numbers(source)) == 75
    c = read_part(source)
    row, col = (int(x[0]) for x in np.nonzero(np.triu(c, 1)))
    with h5py.File(part_of(source), "r+") as file:
        file["C"][row, col] += 1
    done = run("dgemm_ooc", source, *SQUARE, *SCALARS)
    assert done.returncode == 0 and "all of C is computed again" in done.stderr, done.stderr
    assert read(output_of(source)).tobytes() == reference.tobytes()


def has_numbers(source):
    """Whether more than the structure of C's file has been written."""
    return len(part_of(source).read_bytes().replace(b"\0", b"")) > 1 << 16


def read_part(source):
    with h5py.File(part_of(source)) as file:
        return file["C"][()]


def faulty_result(source, fault, *more, ranks=0, **env):
    done = run(FAULTY, source, *SQUARE, *SCALARS, *more, "-o", source.with_name("faulty.h5"), "--force", ranks=ranks,
               DGEMM_OOC_TEST_FAULTS=fault, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return read(source.with_name("faulty.h5")), done.stderr


@pytest.mark.parametrize("memory, ranks", [("64M", 0), ("64M", 3), ("1M", 0), ("1M", 2), ("64M", 8)])
def test_what_goes_wrong_is_found_and_multiplied_again(tmp_path, faulty, memory, ranks):
    source = make(tmp_path / "input.h5", 500, 400)
    reference, _ = general_result(source, *SQUARE, *SCALARS)
    log, found = tmp_path / "log", 0
    for at in range(2, 2 + SEEDS):
        log.write_text("")
        got, err = faulty_result(source, f"gemm:flip@{at}", "--gpu-memory", memory,
                                 *machine(tmp_path, SLOW_BUS if ranks == 8 else {"name": "this"}), ranks=ranks,
                                 DGEMM_OOC_TEST_FAULT_RANK=str(at % max(ranks, 1)), DGEMM_OOC_TEST_FAULT_LOG=str(log))
        met = "fault in gemm" in log.read_text()
        assert got.tobytes() == reference.tobytes() and ("is computed again" in err) == met
        found += met
    assert found


@pytest.mark.parametrize("fault", ["mirror:fail@2", "mirror:fail@1", "combine:fail@2", "copy:fail@7"])
def test_what_fails_ends_the_run(tmp_path, faulty, fault):
    source = make(tmp_path / "input.h5", 500, 400)
    done = run(FAULTY, source, *SQUARE, *SCALARS, DGEMM_OOC_TEST_FAULTS=fault)
    assert done.returncode == 1 and fault.split(":")[0] in done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("late", ["mirror:delay%50", "combine:delay%50,gemm:delay%20", "copy:delay%20"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_what_is_late_leaves_the_same_bits(tmp_path, faulty, late, ranks):
    source = make(tmp_path / "input.h5", 500, 400)
    reference, _ = general_result(source, *SQUARE, *SCALARS)
    for memory in "1M", "64M":
        assert faulty_result(source, late, "--gpu-memory", memory, ranks=ranks)[0].tobytes() == reference.tobytes()


def test_the_page_and_the_full_check(tmp_path):
    source = make(tmp_path / "input.h5")
    report = multiply(source, *SQUARE, "--html", tmp_path / "page.html", "--verify", "full", ranks=2)
    assert report["full_check"]["verdict"] == "PASSED" and "\"symmetric\":true" in (tmp_path / "page.html").read_text().replace(" ", "")
