"""Products of a complex matrix with its transpose or its conjugate transpose: half of the products.  On and below the
diagonal C has the bits of the general product, above it those of its mirror; a Hermitian diagonal is real.

DGEMM_OOC_TEST_SEEDS=N tests N random configurations and N interrupted runs, instead of a few."""
import json
import random
import re
import signal

import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, ROOT, run
from matrices import multiply, output_of, read
from test_complex import fractions, number, turned, whole
from test_symmetric import SEEDS, configuration, machine, result, seeds, stop

OFF = ["--symmetric", "off"]
LOWER = ["--symmetric", "lower"]
REAL = ["--alpha=-1.3", "--beta=0.7"]
COMPLEX = ["--alpha=1.3-0.6i", "--beta=-0.2+2i"]
SLOW_BUS = {"name": "slow bus", "in_bytes_per_s": 5e6}  # for which bands are cut
SLOW_PRODUCT = {"name": "slow product", "disk_read_bytes_per_s": 1e7, "gemm_double_flops_per_s": 1e9}  # one band
IN_MEMORY = SLOW_PRODUCT | {"files_in_memory": True, "disk_run_bytes": 1}
SIDES = [("transb", "C"), ("transa", "C"), ("transb", "T"), ("transa", "T")]
USAGE, INPUT, VERIFY = 2, 3, 5


@pytest.fixture
def source(tmp_path):
    return tmp_path / "input.h5"


def make(source, n, k, dtype="c16", side="transb", letter="C", kind=fractions, **storage):
    """Write the A whose product is n x n, and C0; return op(A) and C0."""
    factor, c = kind((n, k), dtype, 1), kind((n, n), dtype, 2)
    with h5py.File(source, "w") as file:
        file.create_dataset("A", data=factor if side == "transb" else turned(factor, letter), **storage)
        file["C"] = c
    return factor, c


def options(side, letter):
    return ["-b", "A", f"--{side}", letter]


def assert_mirrored(got, general, letter):
    """`general` is the general product, alpha is real, and C0 is symmetric or not there."""
    below, on = np.tril_indices(len(got), -1), np.diag_indices(len(got))
    assert got[below].tobytes() == general[below].tobytes()
    assert np.array_equal(got, turned(got, letter))
    assert got[on].real.tobytes() == general[on].real.tobytes()
    if letter == "C":
        assert got[on].imag.tobytes() == np.zeros_like(got[on].imag).tobytes()
    else:
        assert got[on].imag.tobytes() == general[on].imag.tobytes()


@pytest.mark.parametrize("side, letter", SIDES)
def test_whole_numbers_are_exact(source, side, letter):
    scalars = [("1", "0"), ("-2", "3"), ("1.5-2i", "i"), ("i", "0")]
    for i, (n, k) in enumerate([(1, 1), (1, 7), (9, 1), (2, 40), (23, 41), (67, 5)]):
        for dtype in "c8", "c16":
            factor, c = make(source, n, k, dtype, side, letter, whole)
            alpha, beta = scalars[(i + (dtype == "c8")) % len(scalars)]
            report = multiply(source, *options(side, letter), f"--alpha={alpha}", f"--beta={beta}", "--verify", "full",
                              "-f")
            product = factor @ turned(factor, letter)
            np.testing.assert_array_equal(read(output_of(source)), number(alpha) * product + number(beta) * c)
            assert report["problem"]["symmetric"] and report["full_check"]["verdict"] == "PASSED"


@pytest.mark.singly
@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("side, letter", SIDES)
def test_half_of_the_products(source, side, letter, dtype):
    n, k = 333, 250
    make(source, n, k, dtype, side, letter)
    for alpha in "1", "-0.7":
        general, whole_report = result(source, *options(side, letter), f"--alpha={alpha}", *OFF)
        got, report = result(source, *options(side, letter), f"--alpha={alpha}")
        assert_mirrored(got, general, letter)
        stages, others = report["stages"], whole_report["stages"]
        assert stages["gemm"]["flops"] == 4 * n * (n + 1) * k and others["gemm"]["flops"] == 8 * n * n * k
        assert stages["read"]["bytes"] == others["read"]["bytes"] / 2 == report["plan"]["read_bytes"]
        assert stages["in"]["bytes"] == report["plan"]["in_bytes"]
        assert stages["write"]["bytes"] == others["write"]["bytes"]
        assert report["verdict"] == whole_report["verdict"] == "PASSED"


@pytest.mark.parametrize("letter", "CT")
def test_a_symmetric_addend(source, letter):
    _, c = make(source, 130, 90, letter=letter)
    with h5py.File(source, "a") as file:
        file["C"][...] = c + turned(c, letter)
    scalars = REAL if letter == "C" else COMPLEX
    general, _ = result(source, *options("transb", letter), *scalars, *OFF)
    got, _ = result(source, *options("transb", letter), *scalars)
    assert_mirrored(got, general, letter)


def same(source, side, letter, scalars, *more, **how):
    """The bits must be those of one rank with much memory; return the report."""
    reference, _ = result(source, *options(side, letter), *scalars)
    got, report = result(source, *options(side, letter), *scalars, *more, **how)
    lower = "lower" in more
    assert got.tobytes() == (np.tril(reference) if lower else reference).tobytes(), (more, how)
    assert report["problem"]["symmetric"] and report["problem"]["lower"] == lower
    return report


@pytest.mark.parametrize("seed", range(2 * SEEDS))
def test_the_same_bits_in_random_configurations(source, tmp_path, seed):
    rng = random.Random(seed)
    n, k = rng.choice([1, 2, 63, 65, 333, 500]), rng.choice([1, 17, 300, 1000])
    side, letter = rng.choice(SIDES)
    storage = dict(chunks=(min(n, k, 7), min(n, k, 50)), compression="gzip") if rng.random() < 0.3 else {}
    make(source, n, k, rng.choice(["c8", "c16"]), side, letter, **storage)
    more, ranks, env = configuration(rng, tmp_path)
    if "--machine" in more:
        machine(tmp_path, rng.choice([SLOW_BUS, SLOW_PRODUCT, IN_MEMORY]))
    scalars = rng.choice([[], REAL, ["--alpha", "-0.5"], COMPLEX])
    if rng.random() < 0.3:
        more += LOWER
        scalars = REAL if letter == "C" and scalars == COMPLEX else scalars
    if not env or not ranks or (BUILD / FAULTY).exists():
        same(source, side, letter, scalars, *more, ranks=ranks, **env)


@pytest.mark.singly
@pytest.mark.parametrize("side, letter", SIDES)
@pytest.mark.parametrize("ranks, memory, rates", [(3, "64M", {}), (6, "64M", SLOW_BUS), (2, "1M", {}),
                                                   (2, "64M", SLOW_PRODUCT)])
def test_each_byte_is_read_as_planned(source, tmp_path, side, letter, ranks, memory, rates):
    n, k = 400, 300
    make(source, n, k, "c16", side, letter)
    scalars = [] if rates == SLOW_PRODUCT else REAL
    report = same(source, side, letter, scalars, "--gpu-memory", memory,
                  *machine(tmp_path, rates or {"name": "this"}), ranks=ranks)
    plan, stages = report["plan"], report["stages"]
    if memory == "64M":  # a single triangle: the plan is of all of C
        assert (plan["grid"][1] > 1) == bool(rates)
        assert stages["read"]["bytes"] == plan["read_bytes"] == 16 * n * (k + n * bool(scalars))
        assert stages["in"]["bytes"] == plan["in_bytes"]
    else:
        assert report["pieces"] >= 3
    assert stages["write"]["bytes"] == 16 * n * n


@pytest.mark.parametrize("names", [("real", "imag"), ("x", "y")], ids="/".join)
def test_spellings(source, names):
    factor, _ = make(source, 40, 30, kind=whole)
    kind = np.dtype([(name, "f8") for name in names])
    with h5py.File(source, "a") as file:
        file["other"] = factor.view(kind)
    report = multiply(source, "-a", "other", "-b", "other", "--transb", "C")
    got = read(output_of(source))
    assert got.dtype == kind and report["problem"]["symmetric"]
    np.testing.assert_array_equal(got.view("c16"), factor @ factor.conj().T)


@pytest.mark.parametrize("more", [OFF, ["--tile", "20x20x16"], ["--grid", "1x1"]])
def test_other_products_are_general(source, more):
    factor, _ = make(source, 50, 50, kind=whole)
    report = multiply(source, *options("transb", "C"), *more)
    assert not report["problem"]["symmetric"]
    np.testing.assert_array_equal(read(output_of(source)), factor @ factor.conj().T)


def test_neither_rates_nor_ranks_choose_the_bits(tmp_path):
    """A real product with these rates is a general one (test_symmetric)."""
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.create_dataset("A", (131072, 65536), "c16", chunks=(2048, 2048))  # takes no space
        file.create_dataset("real", (131072, 65536), "f8", chunks=(2048, 2048))
    rates = json.loads((ROOT / "jobs/machines/h200-node.json").read_text())
    rates |= {"disk_read_bytes_per_s": 45e9, "disk_write_bytes_per_s": 20e9}
    for name, letter, word in ("A", "C", "Hermitian"), ("A", "T", "symmetric"), ("real", "T", ""):
        done = run("dgemm_ooc", tmp_path / "input.h5", "-a", name, "-b", name, "--transb", letter, "--dry-run",
                   "--ranks", "32", "--ranks-per-node", "8", *machine(tmp_path, rates))
        assert done.returncode == 0, done.stderr
        said = re.search(r"(\w+): half of the products", done.stdout)
        assert (said[1] if said else "") == word, done.stdout


def test_a_dry_run_plans_half_of_the_products(source, tmp_path):
    make(source, 300, 200)
    flops = {}
    for words in "auto", "off":
        plan = tmp_path / "plan.json"
        done = run("dgemm_ooc", source, *options("transb", "C"), "--symmetric", words, "--dry-run", "--report", plan)
        assert done.returncode == 0 and ("Hermitian: half" in done.stdout) == (words == "auto"), done.stdout
        flops[words] = float(re.search(r'"flops": ?([\d.e+]+)', plan.read_text())[1])
    assert flops["auto"] / flops["off"] == 301 / 600


def test_what_is_asked_for_and_cannot_be(source):
    make(source, 20, 20)
    square = options("transb", "C")
    for more, code, words in [
            ([*square, *LOWER, "--alpha=i"], USAGE, "C is not Hermitian"),
            ([*square, *LOWER, "--beta=1+i"], USAGE, "C is not Hermitian"),
            ([*square, "--symmetric", "on", "--grid", "1x1"], USAGE, "--symmetric on cannot be combined with --grid"),
            (["-b", "A", "--transa", "C", "--transb", "C", "--symmetric", "on"], INPUT, "is not the transpose"),
            (["--product", "cov"], INPUT, "are for real matrices"),
            (["--product", "gram", "--center", "rows"], INPUT, "are for real matrices")]:
        done = run("dgemm_ooc", source, *more)
        assert done.returncode == code and words in done.stderr, done.stderr
    report = multiply(source, *options("transb", "T"), *LOWER, *COMPLEX)
    assert report["problem"]["lower"]


@pytest.mark.parametrize("more, formula", [([], "C = alpha A B^H"), (["--transa", "T"], "C = alpha A^H B"),
                                           (["--transb", "T"], "C = alpha A B^H")])
def test_gram(source, more, formula):
    factor, _ = make(source, 20, 30, kind=whole)
    multiply(source, "--product", "gram", *more)
    expected = factor.conj().T @ factor if "--transa" in more else factor @ factor.conj().T
    np.testing.assert_array_equal(read(output_of(source)), expected)
    with h5py.File(output_of(source)) as file:
        assert file["C"].attrs["formula"] == formula and file["C"].attrs["symmetry"] == "Hermitian"


@pytest.mark.singly
@pytest.mark.parametrize("letter", "CT")
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_residues(source, letter, dtype):
    """Their sums are exact inside, so the general product has the same bits."""
    make(source, 150, 5000, dtype, letter=letter)
    for ranks, scalars in (0, []), (2, ["--alpha=1.3", "--beta=0.7"]):
        algo = [*options("transb", letter), *scalars, "--algo", "ozaki"]
        general, _ = result(source, *algo, *OFF)
        got, report = result(source, *algo, ranks=ranks)
        assert got.tobytes() == general.tobytes() and report["problem"]["symmetric"]


@pytest.mark.gpu
@pytest.mark.parametrize("ranks, dtype, side, letter, more", [
    (0, "c16", "transb", "C", []), (2, "c16", "transa", "C", REAL), (0, "c8", "transa", "T", COMPLEX),
    (0, "c8", "transb", "T", ["--gpu-memory", "4M"]), (2, "c8", "transb", "C", LOWER),
    (0, "c16", "transb", "C", ["--algo", "ozaki"])])
def test_a_gpu_gives_the_bits_of_the_cpu(source, gpu, ranks, dtype, side, letter, more):
    make(source, 200, 100, dtype, side, letter)
    fixed = [word for word in more if word not in ("--gpu-memory", "4M")]
    reference, _ = result(source, *options(side, letter), *fixed)
    got, report = result(source, *options(side, letter), *more, ranks=ranks, device=gpu)
    assert got.tobytes() == reference.tobytes() and report["problem"]["symmetric"]


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("letter", "CT")
def test_nan_and_inf_stay_where_they_belong(source, letter, ranks):
    factor, _ = make(source, 300, 200, letter=letter)
    factor[3, 100], factor[100, 7], factor[250, 9] = np.nan, complex(0, np.inf), complex(-np.inf, 1)
    with h5py.File(source, "a") as file:
        file["A"][...] = factor
    general, report = result(source, *options("transb", letter), *OFF)
    for more in [], ["--verify", "full"], ["--gpu-memory", "1M"]:
        got, found = result(source, *options("transb", letter), *more, ranks=ranks)
        assert (np.isfinite(got) == np.isfinite(general)).all() and found["verdict"] == "PASSED"
        assert found["elements_not_finite"] == report["elements_not_finite"] > 0


# Checks.


@pytest.fixture
def faulty():
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")


@pytest.mark.singly
@pytest.mark.parametrize("lower", [[], LOWER])
@pytest.mark.parametrize("letter", "CT")
def test_a_changed_part_is_found(source, letter, lower):
    """Real or imaginary, below, on and above the diagonal, also where nothing but the vectors can tell."""
    make(source, 90, 70, letter=letter, **(dict(chunks=(20, 30)) if lower else {}))
    square = options("transb", letter)
    multiply(source, *square, *lower, *REAL)
    assert run("dgemm_ooc", "--check-only", source, "-b", "A").returncode == 0
    for row, col in (70, 11), (11, 70), (40, 40):
        for change in 1e-3, 1e-3j:
            with h5py.File(output_of(source), "r+") as file:
                kept = file["C"][row, col]
                file["C"][row, col] = kept + change
                sum_of_it = file["C"].attrs.pop("checksum")
            done = run("dgemm_ooc", "--check-only", source, "-b", "A")
            above = row < col and lower  # of which the checksum alone knows
            assert done.returncode == (0 if above else VERIFY), (row, col, change, done.stdout, done.stderr)
            with h5py.File(output_of(source), "r+") as file:
                file["C"].attrs["checksum"] = sum_of_it
            assert run("dgemm_ooc", "--check-only", source, "-b", "A").returncode == VERIFY
            with h5py.File(output_of(source), "r+") as file:
                file["C"][row, col] = kept
    assert run("dgemm_ooc", "--check-only", source, "-b", "A").returncode == 0


@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_full_check_finds_what_was_written_wrong(source, faulty, at):
    make(source, 200, 150)
    done = run(FAULTY, source, *options("transb", "C"), "--verify", "full", "--io", "buffered",
               DGEMM_OOC_TEST_FAULTS=f"pwrite:flip@{at}", DGEMM_OOC_TEST_FAULT_FILE=".part")
    assert done.returncode == VERIFY, done.stdout + done.stderr


@pytest.mark.parametrize("memory, ranks", [("64M", 0), ("64M", 3), ("1M", 2)])
def test_what_goes_wrong_is_found_and_multiplied_again(source, faulty, memory, ranks):
    make(source, 400, 300, "c8", "transa")
    square, found, log = [*options("transa", "C"), *REAL], 0, source.with_name("log")
    reference, _ = result(source, *square)
    for at in range(2, 2 + SEEDS):
        log.write_text("")
        done = run(FAULTY, source, *square, "--gpu-memory", memory, "-o", source.with_name("faulty.h5"), "-f",
                   ranks=ranks, DGEMM_OOC_TEST_FAULTS=f"gemm:flip@{at}", DGEMM_OOC_TEST_FAULT_LOG=str(log),
                   DGEMM_OOC_TEST_FAULT_RANK="0")
        met = "fault in gemm" in log.read_text()
        assert done.returncode == 0 and ("is computed again" in done.stderr) == met, done.stderr
        assert read(source.with_name("faulty.h5")).tobytes() == reference.tobytes()
        found += met
    assert found


# Restart: stop() is test_symmetric's, whose options the last ones here replace.


@pytest.mark.parametrize("seed", seeds(2))
def test_interrupted_runs_leave_the_same_bits(source, faulty, seed):
    rng = random.Random(seed)
    letter = "CT"[seed % 2]
    make(source, 300, 4000, letter=letter)
    scalars = ["--alpha", "1.3", "--beta", "0.7"]
    reference, _ = result(source, *options("transb", letter), *scalars)
    source.with_name("result.h5").unlink()
    for attempt in range(3):
        code = stop(source, 10 * seed + attempt, "--transb", letter, "--checkpoint", rng.choice(["0.1s", "10m"]),
                    ranks=rng.choice([0, 0, 2, 3]), memory=rng.choice(["2M", "4M", "64M"]),
                    number=rng.choice([signal.SIGUSR2, signal.SIGUSR2, signal.SIGKILL]))
        if code == 0:
            break
    done = run("dgemm_ooc", source, *options("transb", letter), *scalars, "--gpu-memory", "8M",
               ranks=rng.choice([0, 2]))
    assert done.returncode == 0 and "damaged" not in done.stderr, done.stderr
    assert read(output_of(source)).tobytes() == reference.tobytes()
    done = run("dgemm_ooc", "--check-only", source, "-b", "A")
    assert done.returncode == 0 and "checksum equal" in done.stdout, done.stderr


@pytest.mark.parametrize("ranks, memory, later, pieces", [(0, "64M", 3, 1), (3, "800K", 2, 3)])
def test_saved_sums_serve_other_ranks_and_less_memory(source, faulty, ranks, memory, later, pieces):
    """They are of a triangle, with its mirrors; the general product is another one."""
    make(source, 400, 10000)
    square = [*options("transb", "C"), "--alpha", "1.3", "--beta", "0.7"]
    reference, _ = result(source, *square)
    assert stop(source, 1, "--transb", "C", "--checkpoint", "0.1s", memory="64M", ranks=ranks) == 75
    journal = source.with_name("input-C.h5.journal").read_text()
    assert re.findall(r'"k":(\d+)', journal)[-1] != "0"
    done = run("dgemm_ooc", source, *square, *OFF)
    assert done.returncode == INPUT and "symmetric was true and is not there now" in done.stderr, done.stderr
    done = run("dgemm_ooc", source, *square, "--gpu-memory", memory, ranks=later)
    assert done.returncode == 0 and "damaged" not in done.stderr, done.stderr
    assert float(re.search(r"Restart     ([\d.]+) % is done", done.stdout)[1]) > 0
    assert int(re.search(r"(\d+) pieces? left", done.stdout)[1]) >= pieces
    assert read(output_of(source)).tobytes() == reference.tobytes()
