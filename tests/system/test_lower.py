"""--symmetric lower: half of C, with the bits of the general product, and zeros above the diagonal.

DGEMM_OOC_TEST_SEEDS=N tests N random configurations and N interrupted runs, instead of a few."""
import json
import random
import re
import shutil
import signal

import h5py
import numpy as np
import pytest

from cases import each
from launch import BUILD, FAULTY, WAYS, run
from matrices import multiply, output_of, part_of, read
from test_symmetric import (N, K, OFF, ON, ON_GPU, SCALARS, SEEDS, SLOW_BUS, SLOW_PRODUCT, configuration, seeds,
                            general_result, has_numbers, machine, make, result, stop)

LOWER = ["--symmetric", "lower"]
GENERAL = ["-b", "A", "--transb", "T"]  # A A^T
HALF = [*GENERAL, *LOWER]


def operands(trans):
    return ["-b", "A", "--transb" if trans == "T" else "--transa", "T"]


def same(source, trans="T", *more, scalars=SCALARS, **how):
    """The lower half must have the bits of the general product, and the rest those of zeros; return the report."""
    reference, general = general_result(source, *operands(trans), *scalars)
    got, report = result(source, *operands(trans), *scalars, *LOWER, *more, **how)
    assert got.tobytes() == np.tril(reference).tobytes()
    assert report["problem"]["symmetric"] and report["problem"]["lower"] and not general["problem"]["lower"]
    assert report["verdict"] == ("PASSED" if report["checked"] else None)
    return report


STORAGE = {"contiguous": {}, "chunked": dict(chunks=(37, 50)), "compressed": dict(chunks=(64, 64), compression="gzip")}


@pytest.mark.singly
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("ranks", [0, 2, 3])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("trans", "TN")
def test_half_is_written(tmp_path, trans, dtype, ranks, storage):
    source = make(tmp_path / "input.h5", dtype=dtype, trans=trans, **STORAGE[storage])
    for scalars in [], SCALARS:
        report = same(source, trans, scalars=scalars, ranks=ranks)
        assert report["stages"]["gemm"]["flops"] == N * (N + 1) * K
        size = N * N * int(dtype[1])
        assert size / 2 < report["stages"]["write"]["bytes"] < 0.55 * size


@pytest.mark.singly
@pytest.mark.parametrize("trans", "TN")
@pytest.mark.parametrize("n, k", [(1, 1), (1, 300), (300, 1), (2, 5), (63, 64), (65, 7), (129, 1000)])
def test_shapes(tmp_path, n, k, trans):
    source = make(tmp_path / "input.h5", n, k, trans=trans)
    for ranks in 0, 3:
        same(source, trans, ranks=ranks)


@pytest.mark.parametrize("memory, ranks", [("1M", 0), ("1M", 2), ("1M", 3)])
def test_pieces_of_little_memory(tmp_path, memory, ranks):
    report = same(make(tmp_path / "input.h5"), "T", "--gpu-memory", memory, ranks=ranks)
    assert report["pieces"] >= 3 and report["stages"]["write"]["bytes"] < 0.56 * 8 * N * N


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_bits_in_random_configurations(tmp_path, seed):
    rng = random.Random(seed)
    n, k = rng.choice([1, 2, 63, 65, 333, 700, 900]), rng.choice([1, 17, 600, 2000])
    trans = rng.choice("TN")
    source = make(tmp_path / "input.h5", n, k, rng.choice(["f4", "f8"]), trans)
    more, ranks, env = configuration(rng, tmp_path)
    if not env or not ranks or (BUILD / FAULTY).exists():
        same(source, trans, *more, scalars=rng.choice([[], SCALARS, ["--alpha", "-0.5"]]), ranks=ranks, **env)


@pytest.mark.parametrize("ranks, rates", [(1, {}), (3, {}), (8, {}), (9, SLOW_BUS), (2, SLOW_PRODUCT)])
def test_each_byte_moves_as_planned(tmp_path, ranks, rates):
    source = make(tmp_path / "input.h5")
    for scalars in [], SCALARS:
        report = same(source, "T", *machine(tmp_path, rates or {"name": "this"}), scalars=scalars, ranks=ranks)
        plan, stages = report["plan"], report["stages"]
        assert (plan["grid"][1] > 1) == bool(rates) and (plan["grid"][0] == 1) == (rates == SLOW_PRODUCT or ranks == 1)
        assert stages["write"]["bytes"] == plan["write_bytes"] and stages["in"]["bytes"] == plan["in_bytes"]
        assert stages["read"]["bytes"] == plan["read_bytes"] == 8 * N * K + plan["write_bytes"] * bool(scalars)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_replaced_leaves_nothing_above_the_diagonal(tmp_path, way):
    """Neither a whole C in the same file, nor what a killed run has left of one."""
    source = make(tmp_path / "input.h5")
    for ranks in 0, 2:
        multiply(source, *GENERAL, *OFF, "--force")
        whole = read(output_of(source))
        shutil.copy(output_of(source), part_of(source))
        output_of(source).with_name("input-C.h5.journal").touch()
        multiply(source, *HALF, "--io", way, "--force", ranks=ranks)
        assert read(output_of(source)).tobytes() == np.tril(whole).tobytes()


def test_the_output_and_the_run_say_so(tmp_path):
    source = make(tmp_path / "input.h5", 200, 100)
    for more in [], ["--dry-run"]:
        assert "symmetric: lower half only" in run("dgemm_ooc", source, *HALF, *more).stdout
    with h5py.File(output_of(source)) as file:
        assert file["C"].attrs["triangle"] == "lower"
    report = multiply(source, *HALF, "--html", tmp_path / "page.html", "--force")
    assert report["problem"]["lower"] and '"lower":true' in (tmp_path / "page.html").read_text().replace(" ", "")
    multiply(source, *GENERAL, *ON, "--force")
    with h5py.File(output_of(source)) as file:
        assert "triangle" not in file["C"].attrs


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 3, 8])
@pytest.mark.parametrize("trans", "TN")
@pytest.mark.parametrize("memory", ["64M", "1M"])
def test_nan_and_inf_are_counted_where_they_are_written(tmp_path, trans, ranks, memory):
    source = make(tmp_path / "input.h5", 400, 300, trans=trans)
    with h5py.File(source, "a") as file:
        a, c = file["A"][()], file["C"][()]
        x = a if trans == "T" else a.T
        x[3, 150], x[100, 7], x[150, 295] = np.nan, np.inf, -np.inf
        c[np.triu_indices(400, 1)] = np.nan  # of C0 nothing is added above the diagonal
        file["A"][...], file["C"][...] = a, c
    rates = SLOW_BUS if ranks == 8 else {"name": "this"}
    report = same(source, trans, "--gpu-memory", memory, *machine(tmp_path, rates), ranks=ranks)
    assert report["elements_not_finite"] == (~np.isfinite(read(tmp_path / "result.h5"))).sum()


@each("more, code", [
    (["--grid", "1x1"], 2), (["--tile", "20x20x16"], 2), (["--alpha", "0"], 2),
    (["--transa", "T"], 3), (["-a", "A", "-b", "C"], 3)])
def test_what_it_does_not_go_with(tmp_path, more, code):
    source = make(tmp_path / "input.h5", 50, 50)
    for dry in [], ["--dry-run"]:
        done = run("dgemm_ooc", source, *HALF, *more, *dry)
        assert done.returncode == code and done.stderr.count("--symmetric lower") == 1, done.stderr
        assert not output_of(source).exists()


def test_without_products(tmp_path):
    source = make(tmp_path / "input.h5", 50, 0)
    done = run("dgemm_ooc", source, *HALF)
    assert done.returncode == 2 and "--symmetric lower" in done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("trans", "TN")
def test_the_full_check(tmp_path, trans, dtype):
    """It takes C for the lower half of a symmetric matrix, now and later, and C0, too."""
    source = make(tmp_path / "input.h5", dtype=dtype, trans=trans, k=100, n=1500)
    with h5py.File(source, "a") as file:
        c = file["C"][()]
        c[np.triu_indices(1500, 1)] = np.nan
        file["C"][...] = c
    for ranks in 0, 3:
        report = same(source, trans, "--verify", "full", ranks=ranks)
        assert report["full_check"]["verdict"] == "PASSED" and report["full_check"]["residual"] > 0
        for memory in [], ["--host-memory", "8M"]:
            done = run("dgemm_ooc", "--check-only", source, "-b", "A", "-o", tmp_path / "result.h5", *memory, ranks=ranks)
            assert done.returncode == 0 and "checksum equal" in done.stdout, done.stdout + done.stderr


def test_the_full_check_of_nan_and_inf(tmp_path):
    source = make(tmp_path / "input.h5", 400, 300)
    with h5py.File(source, "a") as file:
        a = file["A"][()]
        a[3, 150], a[100, 7], a[150, 295] = np.nan, np.inf, -np.inf
        file["A"][...] = a
    report = same(source, "T", "--verify", "full", scalars=[], ranks=2)
    full = report["full_check"]
    assert full["verdict"] == "PASSED" and full["elements_not_finite"] == 3 * 400 + 397 * 3


@pytest.mark.parametrize("ranks", [0, 3])
def test_the_full_check_finds_what_another_program_made_wrong(tmp_path, ranks):
    """There is no checksum then: products alone tell."""
    source = make(tmp_path / "input.h5", 300, 200)
    a = read(source, "A")
    c = np.tril(a @ a.T)
    check = ["dgemm_ooc", "--check-only", source, *HALF, "-o", tmp_path / "other.h5"]
    for row, col, code in (0, 0, 0), (299, 0, 5), (150, 149, 5), (7, 7, 5), (0, 299, 0):
        wrong = c.copy()
        wrong[row, col] += 0 if row == col == 0 else 1e-6
        with h5py.File(tmp_path / "other.h5", "w") as file:
            file["C"] = wrong
        done = run(*check, ranks=ranks)
        assert done.returncode == code, done.stdout + done.stderr
        assert done.returncode == 0 or re.search(f"row ({row}|{col}) of C", done.stderr)


def test_half_is_no_whole(tmp_path):
    """Neither is taken for the other, complete as it is."""
    source = make(tmp_path / "input.h5", 100, 50)
    multiply(source, *HALF)
    assert "made from these operands already" in run("dgemm_ooc", source, *HALF).stdout
    done = run("dgemm_ooc", source, *GENERAL, *ON)
    assert done.returncode == 3 and "--force" in done.stderr
    assert (np.triu(read(output_of(source)), 1) == 0).all()
    multiply(source, *GENERAL, *ON, "--force")
    done = run("dgemm_ooc", "--check-only", source, *HALF)
    assert done.returncode == 3 and "made as a whole, not with the --symmetric lower" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("ranks, dtype, trans, more", ON_GPU)
def test_a_gpu_gives_the_bits_of_the_cpu(tmp_path, gpu, ranks, dtype, trans, more):
    source = make(tmp_path / "input.h5", 300, 200, dtype, trans)
    algo = more if "ozaki" in more else []
    scalars = more if more == SCALARS else []
    reference, _ = general_result(source, *operands(trans), *scalars, *algo)
    got, _ = result(source, *operands(trans), *LOWER, *more, ranks=ranks, device=gpu)
    assert got.tobytes() == np.tril(reference).tobytes()


@pytest.fixture
def faulty():
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")


@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_full_check_finds_what_was_written_wrong(tmp_path, faulty, at):
    source = make(tmp_path / "input.h5", 300, 200)
    done = run(FAULTY, source, *HALF, "--verify", "full", "--io", "buffered",
               DGEMM_OOC_TEST_FAULTS=f"pwrite:flip@{at}", DGEMM_OOC_TEST_FAULT_FILE=".part")
    assert done.returncode == 5, done.stdout + done.stderr


@pytest.mark.parametrize("memory, ranks", [("64M", 0), ("64M", 3), ("1M", 0), ("1M", 2)])
def test_what_goes_wrong_is_found_and_multiplied_again(tmp_path, faulty, memory, ranks):
    source = make(tmp_path / "input.h5", 500, 400)
    reference, _ = general_result(source, *GENERAL, *SCALARS)
    report, found = tmp_path / "faulty.json", 0
    for at in range(2, 2 + SEEDS):
        done = run(FAULTY, source, *HALF, *SCALARS, "--gpu-memory", memory, "-o", tmp_path / "faulty.h5", "--force",
                   "--report", report, ranks=ranks, DGEMM_OOC_TEST_FAULTS=f"gemm:flip@{at}",
                   DGEMM_OOC_TEST_FAULT_RANK=str(at % max(ranks, 1)))
        assert done.returncode == 0, done.stdout + done.stderr
        assert read(tmp_path / "faulty.h5").tobytes() == np.tril(reference).tobytes()
        assert json.loads(report.read_text())["checksum"] == result(source, *HALF, *SCALARS)[1]["checksum"]
        found += "is computed again" in done.stderr
    assert found


@pytest.mark.parametrize("seed", seeds(1))
def test_interrupted_runs_leave_the_same_bits(tmp_path, faulty, seed):
    """Stopped and killed with any ranks and memory; resumed ones read the files back."""
    rng = random.Random(seed)
    source = make(tmp_path / "input.h5", 500, 6000)
    reference, _ = result(source, *GENERAL, *SCALARS, *OFF)
    (tmp_path / "result.h5").unlink()
    for attempt in range(4):
        code = stop(source, 10 * seed + attempt, *LOWER, "--checkpoint", rng.choice(["0.1s", "10m"]),
                    ranks=rng.choice([0, 0, 2, 3]), memory=rng.choice(["2M", "4M", "16M", "64M"]),
                    number=rng.choice([signal.SIGUSR2, signal.SIGUSR2, signal.SIGKILL]))
        if code == 0:
            break
    done = run("dgemm_ooc", source, *HALF, *SCALARS, "--gpu-memory", "8M", ranks=rng.choice([0, 2]))
    assert done.returncode == 0 and "damaged" not in done.stderr, done.stderr
    assert ("Restart " in done.stdout) == ("the files are read back" in done.stdout)
    assert read(output_of(source)).tobytes() == np.tril(reference).tobytes()


def test_saved_sums_serve_less_memory(tmp_path, faulty):
    source = make(tmp_path / "input.h5", 500, 30000)
    reference, _ = general_result(source, *GENERAL, *SCALARS)
    assert stop(source, 1, *LOWER, "--checkpoint", "0.1s", memory="64M") == 75
    done = run("dgemm_ooc", source, *HALF, *SCALARS, "--gpu-memory", "2M", ranks=2)
    assert done.returncode == 0 and "damaged" not in done.stderr, done.stderr
    assert float(re.search(r"Restart     ([\d.]+) % is done", done.stdout)[1]) > 0
    assert read(output_of(source)).tobytes() == np.tril(reference).tobytes()


@pytest.mark.parametrize("first, then, says", [
    (LOWER, ON, 'triangle was "lower" and is not there now'), (LOWER, [], 'triangle was "lower" and is not there now'),
    (ON, LOWER, 'triangle was not there and is "lower" now')])
def test_a_run_of_another_half_is_not_resumed(tmp_path, faulty, first, then, says):
    source = make(tmp_path / "input.h5", 500, 30000)
    assert stop(source, 1, *first, "--checkpoint", "0.1s") == 75
    done = run("dgemm_ooc", source, *GENERAL, *SCALARS, *then)
    assert done.returncode == 3 and says in done.stderr and "--restart never" in done.stderr
    multiply(source, *GENERAL, *SCALARS, *then, "--restart", "never")
    reference, _ = general_result(source, *GENERAL, *SCALARS)
    assert read(output_of(source)).tobytes() == (np.tril(reference) if then == LOWER else reference).tobytes()


@pytest.mark.parametrize("above", [True, False])
def test_damage_of_what_is_complete_is_found(tmp_path, faulty, above):
    """Also above the diagonal, where no run would write over it."""
    source = make(tmp_path / "input.h5", 400, 1500)
    assert stop(source, 0, *LOWER, memory="1M", until=lambda: has_numbers(source)) == 75
    c = read(part_of(source))
    row, col = (int(x[0]) for x in np.nonzero(np.tril(c, -1)))
    assert (np.triu(c, 1) == 0).all() and row > col
    with h5py.File(part_of(source), "r+") as file:
        file["C"][(0, 1) if above else (row, col)] += 1
    done = run("dgemm_ooc", source, *HALF, *SCALARS)
    assert done.returncode == 3 and "differs from what was written; give --restart never" in done.stderr, done.stderr
    multiply(source, *HALF, *SCALARS, "--restart", "never")
    reference, _ = general_result(source, *GENERAL, *SCALARS)
    assert read(output_of(source)).tobytes() == np.tril(reference).tobytes()
