"""Products in residues, --algo ozaki[:N]: exact where possible, accurate elsewhere, with the same bits on all
devices, and checked with their own limit.

DGEMM_OOC_TEST_SEEDS=N tests N random configurations and N flips, instead of a few."""
import json
import os
import random
import re

import h5py
import numpy as np
import pytest

from cases import each
from launch import FAULTY, GPU, ROOT, WAYS, run
from matrices import multiply, operands, oriented, output_of, read, scalars, whole, write
from test_restart import SCALARS, stop

BLOCK = 8192  # steps of k in one exact block
M, N, K = 45, 37, 2 * BLOCK + 1000
PROBLEM = dict(trans="NT", alpha=1.7, beta=-0.3)
LIMIT = ["--gpu-memory", "14M"]  # the CPU's kernel takes 8.4 MB of it
GPU_K = K if GPU else 300  # emulated tensor cores are slow
SEEDS = int(os.environ.get("DGEMM_OOC_TEST_SEEDS", "4"))
USAGE, INPUT, MEMORY, VERIFY, NOT_CHECKED = 2, 3, 4, 5, 6


def exact(a, b, trans="NN"):
    a, b = oriented(a, b, trans)
    return a.astype(np.longdouble) @ b.astype(np.longdouble)


def error(got, a, b, trans="NN"):
    """The largest error in units of u |A||B|."""
    sizes = np.abs(oriented(a, b, trans)[0]).astype("f8") @ np.abs(oriented(a, b, trans)[1]).astype("f8")
    return float(np.max(np.abs(got - exact(a, b, trans)) / sizes / (np.finfo(got.dtype).eps / 2)))


def result(source, *options, algo="ozaki", problem=PROBLEM, **how):
    output = source.with_name("result.h5")
    report = multiply(source, "--algo", algo, *scalars(**problem), *options, "-o", output, "--force", **how)
    return read(output), report


@pytest.fixture(scope="module", params=["f4", "f8"])
def problem(request, tmp_path_factory):
    """A file of random operands, and their product on one rank, whose bits all other runs must have."""
    source = tmp_path_factory.mktemp("ozaki") / "input.h5"
    operands(source, M, N, K, request.param, PROBLEM["trans"])
    return source, result(source)[0]


VARIANTS = {
    "2 ranks": dict(ranks=2, options=LIMIT),
    "3 ranks": dict(ranks=3, options=LIMIT),
    "slabs of a block": dict(options=["--tile", f"{M}x{N}x{BLOCK}"]),
    "a slab of one step, rounded up": dict(options=["--tile", f"{M}x{N}x1"]),
    "ragged tile": dict(options=["--tile", "17x11x8192"]),
    "thin tile, 2 ranks": dict(ranks=2, options=["--tile", f"1x{N}x{K}"]),
    "grid": dict(ranks=4, options=["--grid", "1x3", *LIMIT]),
    "unchecked": dict(options=["--verify", "off"]),
    "full": dict(options=["--verify", "full"]),
    "2 threads": dict(OMP_NUM_THREADS="2"),
    "HDF5": dict(options=["--io", "hdf5", *LIMIT]),
}


@pytest.mark.singly
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_bits(problem, variant):
    source, reference = problem
    how = dict(VARIANTS[variant])
    got, report = result(source, *how.pop("options", []), **how)
    assert got.tobytes() == reference.tobytes()
    assert report["plan"]["slab"] % BLOCK == 0 or report["plan"]["slab"] >= K


def configuration(rng, megabytes):
    options = ["--gpu-memory", f"{rng.randint(*megabytes)}M", "--host-memory", f"{rng.randint(64, 200)}M",
               "--io", rng.choice(WAYS)]
    ranks = rng.randint(0, 6)
    if rng.random() < 0.5:
        options += ["--tile", f"{rng.randint(5, M)}x{rng.randint(5, N)}x{rng.choice([1, BLOCK + 1, K])}"]
        options[1] = "80M"
    return options, ranks


def run_anyhow(problem, rng, folder, megabytes=(11, 40), **how):
    """Multiply in a random configuration, from files that may be chunked, now and then with a stop in the middle."""
    source, reference = problem
    options, ranks = configuration(rng, megabytes)
    chunked = folder / "chunked.h5"
    with h5py.File(source) as old, h5py.File(chunked, "w") as new:
        for name in "ABC":
            chunked_too = rng.random() < 0.3 and name != "C" and options[5] in ("auto", "hdf5")
            chunks = (7, min(900, old[name].shape[1])) if chunked_too else None
            new.create_dataset(name, data=old[name], chunks=chunks, compression=chunks and "gzip")
    if rng.random() < 0.3:  # it is resumed in another configuration
        done = run(FAULTY, chunked, "--algo", "ozaki", *scalars(**PROBLEM), "-o", folder / "result.h5",
                   "--tile", f"{rng.randint(3, M)}x{rng.randint(3, N)}x{BLOCK}", "--max-time", f"{rng.random():.2f}s",
                   ranks=rng.randint(0, 3), DGEMM_OOC_TEST_FAULTS="gemm:delay@1+")
        assert done.returncode in (0, 75), done.stderr
    assert result(chunked, *options, ranks=ranks, **how)[0].tobytes() == reference.tobytes(), (options, ranks)


@pytest.mark.singly
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_bits_in_random_configurations(problem, seed, tmp_path):
    run_anyhow(problem, random.Random(seed), tmp_path)


@pytest.fixture(scope="module", params=["f4", "f8"])
def short_problem(request, tmp_path_factory):
    source = tmp_path_factory.mktemp("short") / "input.h5"
    operands(source, M, N, GPU_K, request.param, PROBLEM["trans"])
    return source, result(source)[0]


@pytest.mark.singly
@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_gpu_gives_the_same_bits_in_random_configurations(short_problem, seed, tmp_path, gpu):
    run_anyhow(short_problem, random.Random(seed), tmp_path, megabytes=(31, 60), device=gpu)


@pytest.mark.singly
@pytest.mark.gpu
@pytest.mark.parametrize("dtype, algo", [("f8", "ozaki"), ("f4", "ozaki"), ("f8", "ozaki:6")])
@pytest.mark.parametrize("options, ranks", [([], 0), (["--tile", "50x37x8192"], 2)])
def test_a_gpu_gives_the_bits_of_the_cpu(tmp_path, gpu, dtype, algo, options, ranks):
    source = tmp_path / "input.h5"
    operands(source, M, N, GPU_K, dtype, PROBLEM["trans"])
    options = [option.replace("50x", f"{M // 2}x") for option in options]
    reference, _ = result(source, algo=algo)
    got, report = result(source, *options, algo=algo, device=gpu, ranks=ranks)
    assert got.tobytes() == reference.tobytes()
    assert report["algorithm"] == f"ozaki:{algo[6:] or (14 if dtype == 'f8' else 7)}"
    assert report["machine"]["device"] == "gpu"


@each("dtype, k, algo, most", [
    ("f8", 100, "ozaki", 1.5), ("f8", 2 * BLOCK, "ozaki:18", 1), ("f8", 2 * BLOCK, "ozaki:13", 20),
    ("f4", 2 * BLOCK, "ozaki:8", 1.5)])
def test_errors_are_small_with_other_moduli(tmp_path, dtype, k, algo, most):
    a, b, _ = operands(tmp_path / "input.h5", 30, 20, k, dtype)
    assert error(result(tmp_path / "input.h5", algo=algo, problem={})[0], a, b) <= most


@pytest.mark.singly
@pytest.mark.parametrize("dtype, most", [("f8", 1), ("f4", 1.5)])
@pytest.mark.parametrize("trans", ["NN", "TN", "NT", "TT"])
def test_errors_are_no_larger_than_those_of_sums(tmp_path, dtype, most, trans):
    a, b, _ = operands(tmp_path / "input.h5", 30, 20, 2 * BLOCK + 8, dtype, trans)
    got, report = result(tmp_path / "input.h5", problem=dict(trans=trans))
    native, _ = result(tmp_path / "input.h5", algo="auto", problem=dict(trans=trans))
    assert error(got, a, b, trans) <= min(most, error(native, a, b, trans))
    assert report["verdict"] == "PASSED"


@each("algo", ["ozaki:14", "ozaki:16", "ozaki"])
@each("dtype, k, limit", [("f8", 2 * BLOCK + 7, 1 << 19), ("f4", 500, 1 << 7)])
def test_whole_numbers_are_exact(tmp_path, algo, dtype, k, limit):
    rng = np.random.default_rng(5)
    a = rng.integers(-limit, limit, (20, k))
    b = rng.integers(-limit, limit, (k, 10))
    write(tmp_path / "input.h5", A=a.astype(dtype), B=b.astype(dtype))
    got, _ = result(tmp_path / "input.h5", algo=algo, problem={})
    assert (got.astype(object) == a.astype(object) @ b.astype(object)).all()


def test_ones_give_k(tmp_path):
    write(tmp_path / "input.h5", A=np.ones((9, K)), B=np.ones((K, 8)))
    assert (result(tmp_path / "input.h5", algo="ozaki:6", problem={})[0] == K).all()


def test_nan_and_inf_stay_where_they_belong(tmp_path):
    a, b = whole((30, K)), whole((K, 20))
    a[3, 5], a[7, BLOCK], b[BLOCK + 1, 4] = np.nan, np.inf, -np.inf
    write(tmp_path / "input.h5", A=a, B=b)
    got, report = result(tmp_path / "input.h5", problem={})
    with np.errstate(invalid="ignore"):
        expected = a @ b
    assert np.array_equal(got, expected, equal_nan=True)
    assert report["elements_not_finite"] == 2 * 20 + 28 and report["verdict"] == "PASSED"
    done = run("dgemm_ooc", tmp_path / "input.h5", "--algo", "ozaki", "--force")
    assert "11 % of C are NaN or Inf" in done.stderr


def test_each_number_of_moduli_says_what_it_proves(tmp_path):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 30, 20, K)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b)
    before = np.inf
    for moduli in 6, 9, 13, 14, 18:
        got, report = result(source, algo=f"ozaki:{moduli}", problem={})
        proven = report["proven_units"]
        off = np.linalg.norm((got - exact(a, b)).astype("f8"), axis=1)
        assert (off <= proven * 2.0 ** -53 * norms).all() and proven <= before
        assert report["algorithm"] == f"ozaki:{moduli}"
        before = proven
    assert proven < 10


def spread(path, phi):
    rng = np.random.default_rng(3)
    for name, shape in ("A", (30, K)), ("B", (K, 20)):
        write(path, **{name: (rng.random(shape) - 0.5) * np.exp(phi * rng.standard_normal(shape))})
    return read(path, "A"), read(path, "B")


@pytest.mark.parametrize("phi, least, most", [(0, 14, 14), (2, 14, 14), (3, 15, 18)])
def test_as_many_moduli_as_the_operands_need(tmp_path, phi, least, most):
    """The choice is based on samples of the operands: no error exceeds the proven bound of running sums, and
    fewer moduli, from 14 on, are said to be too few."""
    source = tmp_path / "input.h5"
    a, b = spread(source, phi)
    got, report = result(source, problem={})
    chosen = int(report["algorithm"].split(":")[1])
    assert least <= chosen <= most and error(got, a, b) <= K
    assert result(source, *LIMIT, problem={}, ranks=2)[1]["algorithm"] == report["algorithm"]
    done = run("dgemm_ooc", source, "--algo", f"ozaki:{chosen}", "--force")
    assert done.returncode == 0 and "moduli" not in done.stderr
    for fewer in range(14, chosen):
        done = run("dgemm_ooc", source, "--algo", f"ozaki:{fewer}", "--force", "-n")
        assert f"give --algo ozaki:{chosen}" in done.stderr


@each("where", [np.s_[:, -600:], np.s_[:, :600], np.s_[-5:], np.s_[:5]])
@each("of_a", [True, False])
def test_spread_is_seen_at_either_end(tmp_path, where, of_a):
    source = tmp_path / "input.h5"
    rng = np.random.default_rng(4)
    a, b = rng.random((16, 2 * BLOCK)) - 0.5, rng.random((15, 2 * BLOCK)) - 0.5
    wide = (a if of_a else b)[where]
    wide *= np.exp(8 * rng.standard_normal(wide.shape))
    write(source, A=a, B=b)
    done = run("dgemm_ooc", source, "--algo", "ozaki:14", "--transb", "T", "-n")
    assert "14 moduli are too few" in done.stderr or "even 18 moduli" in done.stderr


def test_operands_that_no_number_of_moduli_suits(tmp_path):
    source = tmp_path / "input.h5"
    spread(source, 20)
    done = run("dgemm_ooc", source, "--algo", "ozaki")
    assert done.returncode in (0, NOT_CHECKED) and "leave --algo at auto" in done.stderr
    assert "ozaki:18 on" in done.stdout


@each("trans", ["NN", "TT"])
@each("a, b", [(0, 1), (1e-130, 1e100), (np.nan, 1), (1, np.inf)])
def test_operands_without_spread(tmp_path, trans, a, b):
    """Zeros, huge, tiny and non-finite numbers: 14 moduli."""
    source = tmp_path / "input.h5"
    write(source, A=np.full((30, K) if trans == "NN" else (K, 30), float(a)),
          B=np.full((K, 20) if trans == "NN" else (20, K), float(b)))
    got, report = result(source, problem=dict(trans=trans))
    assert report["algorithm"] == "ozaki:14"
    assert np.allclose(got, a * b * K, rtol=1e-13, equal_nan=True)


@pytest.mark.parametrize("algo", ["ozaki", "ozaki:6"])
def test_an_output_says_how_it_was_made_and_is_checked_by_that(tmp_path, algo):
    source = tmp_path / "input.h5"
    operands(source, M, N, K)
    multiply(source, "--algo", algo, "--verify", "full")
    with h5py.File(output_of(source)) as file:
        assert file["C"].attrs["kernels"] == ("ozaki:6" if algo == "ozaki:6" else "ozaki:14")
    done = run("dgemm_ooc", source, "--check-only")
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr
    with h5py.File(output_of(source), "a") as file:  # the tighter limit of native sums then applies
        file["C"].attrs["kernels"] = np.bytes_("own")
    done = run("dgemm_ooc", source, "--check-only")
    assert (done.returncode == VERIFY) == (algo == "ozaki:6"), done.stdout + done.stderr


def test_what_made_c_decides_how_it_is_checked(tmp_path):
    """The output's own record decides and not the current options, which would accept larger errors."""
    source = tmp_path / "input.h5"
    operands(source, M, N, 500)
    multiply(source)
    results = [run("dgemm_ooc", source, "--check-only", *options).stdout.splitlines()[-1]
               for options in ([], ["--algo", "ozaki:6"], ["--algo", "cpu"])]
    sizes = [float(re.search(r"checked for errors down to (\S+) of a typical element: PASSED", text)[1]) for text in results]
    assert max(sizes) < 1.5 * min(sizes) < 1e-8


def test_a_slab_beyond_all_numbers_is_all_of_k(tmp_path):
    operands(tmp_path / "input.h5", 20, 20, 30)
    for algo in "ozaki", "auto":
        report = multiply(tmp_path / "input.h5", "--tile", f"16x16x{2 ** 63 - 1}", "--algo", algo, "--force")
        assert report["plan"]["slab"] == 32


@each("algo, said", [
    *((f"ozaki:{n}", ", cpu, ozaki, ozaki:6..18") for n in ("5", "19", "", "14x", "x", "14:14", "-7")),
    ("ozaki14", ", cpu, ozaki"), ("cpu:14", ", cpu, ozaki")])
def test_other_numbers_are_refused(tmp_path, algo, said):
    operands(tmp_path / "input.h5", 5, 5, 5)
    done = run("dgemm_ooc", tmp_path / "input.h5", "--algo", algo)
    assert done.returncode == USAGE and said in done.stderr


def test_memory_that_holds_no_block_is_refused_with_what_would_do(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, M, N, K)
    done = run("dgemm_ooc", source, "--algo", "ozaki", "--gpu-memory", "1M")
    assert done.returncode == MEMORY
    least = re.search(r"give at least --gpu-memory (\d+K)", done.stderr)[1]
    done = run("dgemm_ooc", source, "--algo", "ozaki", "--gpu-memory", least)
    assert done.returncode == 0, done.stderr


def test_a_stopped_run_goes_on_to_the_same_bits_and_with_no_other_products(tmp_path):
    source, whole_run = tmp_path / "input.h5", tmp_path / "whole.h5"
    operands(source, 120, 100, K, "f8", "TN")
    assert run("dgemm_ooc", source, *SCALARS, "--algo", "ozaki", "-o", whole_run).returncode == 0
    code, _, err = stop(source, "--algo", "ozaki", tile=["--tile", "6x5x8192"])
    assert code == 75, err
    for other in "ozaki:15", "auto":
        done = run("dgemm_ooc", source, *SCALARS, "--algo", other)
        assert done.returncode == INPUT and "kernels" in done.stderr, done.stderr
    done = run("dgemm_ooc", source, *SCALARS, "--algo", "ozaki", *LIMIT, ranks=2)
    assert done.returncode == 0 and "Restart" in done.stdout, done.stdout + done.stderr
    assert read(output_of(source)).tobytes() == read(whole_run).tobytes()


@pytest.mark.singly
@pytest.mark.parametrize("fault, said", [("gemm:flip@2", "differs by"), ("gemm:residue@2", "it cannot be right")])
def test_what_goes_wrong_on_the_device_is_found_and_multiplied_again(problem, fault, said, tmp_path):
    source, reference = problem
    output = tmp_path / "result.h5"
    done = run(FAULTY, source, "--algo", "ozaki", *scalars(**PROBLEM), "--tile", "20x20x8192", "-o", output,
               DGEMM_OOC_TEST_FAULTS=fault)
    assert done.returncode == 0 and said in done.stderr, done.stdout + done.stderr
    assert "computed again" in done.stderr
    assert read(output).tobytes() == reference.tobytes()
    done = run(FAULTY, source, "--algo", "ozaki", *scalars(**PROBLEM), "--tile", "20x20x8192", "-o", output,
               "--force", DGEMM_OOC_TEST_FAULTS=fault + "+")
    assert done.returncode == VERIFY, done.stdout + done.stderr


@each("bit", range(SEEDS))
def test_flips_of_sums_pass_only_where_rounding_is_as_large(tmp_path, bit):
    """Flips a random bit of a random sum: what passes differs by less than the error that the run promised to
    find."""
    source, output = tmp_path / "input.h5", tmp_path / "flipped.h5"
    operands(source, M, N, K)
    right, _ = result(source, problem={})
    done = run(FAULTY, source, "--algo", "ozaki", "-o", output, DGEMM_OOC_TEST_FAULTS="gemm:bit@2",
               DGEMM_OOC_TEST_SEED=str(bit))
    assert done.returncode == 0, done.stdout + done.stderr
    found = float(re.search(r"checked for errors down to ([\d.e+-]+) of a typical", done.stdout)[1])
    off = np.abs(read(output) - right)
    assert (off <= found * np.sqrt((right ** 2).mean(axis=1))[:, None] * 1.5).all()


@pytest.mark.parametrize("read_rate, words", [(50e9, "--algo ozaki:14: 3"), (1e9, "--algo ozaki would not be faster")])
def test_a_dry_run_says_what_it_would_take(tmp_path, read_rate, words):
    """Where a GPU's products are the limit, and where reading is."""
    with h5py.File(tmp_path / "input.h5", "w") as file:
        for name in "A", "B":
            file.create_dataset(name, (49152, 49152), "f8", chunks=(2048, 2048))  # takes no space
    rates = json.loads((ROOT / "jobs/machines/h200-node.json").read_text())
    rates |= {"disk_read_bytes_per_s": read_rate, "disk_write_bytes_per_s": 20e9, "ranks": 1}
    (tmp_path / "machine.json").write_text(json.dumps(rates))
    line = ["dgemm_ooc", tmp_path / "input.h5", "--dry-run", "--machine", tmp_path / "machine.json"]
    assert words in run(*line).stdout
    for more in ["--quiet"], ["--algo", "ozaki"]:
        assert "--algo ozaki" not in run(*line, *more).stdout
    assert "in residues of 14 moduli" in run(*line, "--algo", "ozaki").stdout


def test_a_dry_run_looks_at_the_operands(tmp_path):
    """Where elements spread too far for residues, a dry run does not suggest these."""
    rates = json.loads((ROOT / "jobs/machines/h200-node.json").read_text())
    (tmp_path / "machine.json").write_text(json.dumps(rates | {"gemm_double_flops_per_s": 1e9, "ranks": 1}))
    for phi, words in (0.5, "--algo ozaki:14: "), (9, "--algo ozaki does not suit these operands"):
        source = tmp_path / f"{phi}.h5"
        spread(source, phi)
        assert words in run("dgemm_ooc", source, "-n", "--machine", tmp_path / "machine.json").stdout
