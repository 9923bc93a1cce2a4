"""Complex products in residues, --algo ozaki[:N] of c and z: moduli of their own, by which a GPU takes two products of
bytes for each, with the bits of the CPU's product of large integers whatever the ranks, tiles and devices.

DGEMM_OOC_TEST_SEEDS=N tests N random configurations instead of a few."""
import json
import os
import random as chance
import shutil

import h5py
import numpy as np
import pytest

from launch import FAULTY, GPU, ROOT, WAYS, run
from matrices import multiply, output_of, read
from test_complex import PARTS, operands, options, whole
from test_restart import stop

SEEDS = int(os.environ.get("DGEMM_OOC_TEST_SEEDS", "4"))
BLOCK = 4096  # complex steps of k in one exact block
M, N, K = 23, 17, 2 * BLOCK + 300
GPU_K = K if GPU else 90  # emulated tensor cores are slow
SCALARS = "1.7-0.4i", "-0.3+2i"
LIMIT = ["--gpu-memory", "14M"]  # the CPU's kernel takes 8.4 MB of it
USUAL = {"c16": "ozaki:15", "c8": "ozaki:8"}
VERIFY, NOT_CHECKED = 5, 6


def result(source, trans, *more, algo="ozaki", scalars=SCALARS, **how):
    output = source.with_name("result.h5")
    report = multiply(source, *options(trans, *scalars), "--algo", algo, *more, "-o", output, "--force", **how)
    return read(output), report


@pytest.fixture
def source(tmp_path):
    return tmp_path / "input.h5"


@pytest.fixture(scope="module", params=PARTS)
def problem(request, tmp_path_factory):
    """Operands of several blocks, and the bits of their product on one rank."""
    source = tmp_path_factory.mktemp("complex_ozaki") / "input.h5"
    operands(source, (request.param,) * 3, "TC", shape=(M, N, K))
    got, report = result(source, "TC")
    assert report["algorithm"] == USUAL[request.param] and report["verdict"] == "PASSED"
    return source, got.tobytes()


VARIANTS = {
    "2 ranks": dict(ranks=2, options=LIMIT),
    "3 ranks": dict(ranks=3, options=LIMIT),
    "slabs of a block": dict(options=["--tile", f"{M}x{N}x{BLOCK}"]),
    "ragged tile": dict(options=["--tile", f"7x5x{BLOCK}"]),
    "thin tile": dict(options=["--tile", f"{M}x1x{K}"]),
    "flat tile, 2 ranks": dict(ranks=2, options=["--tile", f"1x{N}x1"]),
    "grid": dict(ranks=4, options=["--grid", "1x3", *LIMIT]),
    "full": dict(options=["--verify", "full"]),
    "2 threads": dict(OMP_NUM_THREADS="2"),
}


@pytest.mark.singly
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_bits(problem, variant):
    source, reference = problem
    how = dict(VARIANTS[variant])
    got, report = result(source, "TC", *how.pop("options", []), **how)
    assert got.tobytes() == reference
    assert report["plan"]["slab"] % BLOCK == 0 or report["plan"]["slab"] >= K


@pytest.mark.singly
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_bits_in_random_configurations(problem, seed, tmp_path):
    source, reference = problem
    rng = chance.Random(seed)
    chunked = tmp_path / "chunked.h5"
    with h5py.File(source) as old, h5py.File(chunked, "w") as new:
        for name in "ABC":
            how = dict(chunks=(min(900, old[name].shape[0]), min(rng.randint(5, 900), old[name].shape[1])),
                       compression="gzip") if rng.random() < 0.4 else {}
            new.create_dataset(name, data=old[name], **how)
    more = ["--gpu-memory", f"{rng.randint(11, 40)}M", "--host-memory", f"{rng.randint(64, 200)}M",
            "--io", rng.choice(WAYS[:3])]
    if rng.random() < 0.5:
        more += ["--tile", f"{rng.randint(2, M)}x{rng.randint(2, N)}x{rng.choice([1, BLOCK + 1, K])}"]
        more[1] = "80M"
    ranks = rng.randint(0, 5)
    assert result(chunked, "TC", *more, ranks=ranks)[0].tobytes() == reference, (more, ranks)


@pytest.mark.singly
@pytest.mark.gpu
@pytest.mark.parametrize("dtype, algo", [("c16", "ozaki"), ("c8", "ozaki"), ("c16", "ozaki:6")])
@pytest.mark.parametrize("trans, more, ranks", [("NN", [], 0), ("TN", ["--tile", f"9x5x{BLOCK}"], 2),
                                                ("NT", ["--tile", f"{M}x3x{BLOCK}"], 0), ("CC", [], 3)])
def test_a_gpu_gives_the_bits_of_the_cpu(source, gpu, dtype, algo, trans, more, ranks):
    operands(source, (dtype,) * 3, trans, shape=(M, N, GPU_K))
    reference, _ = result(source, trans, algo=algo)
    got, report = result(source, trans, *more, algo=algo, device=gpu, ranks=ranks)
    assert got.tobytes() == reference.tobytes()
    assert report["algorithm"] == (USUAL[dtype] if algo == "ozaki" else algo)
    assert report["machine"]["device"] == "gpu"


@pytest.mark.gpu
def test_a_gpu_multiplies_real_and_complex_operands(source, gpu):
    for types in ("f8", "c16"), ("c16", "f8"):
        source.unlink(missing_ok=True)
        operands(source, (*types, "c16"), "TN", shape=(M, N, GPU_K))
        assert result(source, "TN", device=gpu)[0].tobytes() == result(source, "TN")[0].tobytes()


@pytest.mark.singly
@pytest.mark.parametrize("transb", "NTC")
@pytest.mark.parametrize("transa", "NTC")
@pytest.mark.parametrize("dtype, algo, limit, k", [
    ("c16", "ozaki", 1 << 18, BLOCK + 7), ("c16", "ozaki:9", 1 << 10, 500), ("c8", "ozaki", 1 << 6, 300),
    ("c16", "ozaki:18", 1 << 19, 200)])
def test_whole_numbers_are_exact(source, transa, transb, dtype, algo, limit, k):
    def kind(shape, dtype, seed):
        rng = np.random.default_rng([seed, *shape])
        re, im = rng.integers(-limit, limit, (2, *shape))
        return (re + 1j * im).astype(dtype)
    trans = transa + transb
    a, b, _ = operands(source, (dtype,) * 3, trans, kind, (9, 7, k))
    got, _ = result(source, trans, algo=algo, scalars=("1", "0"))
    np.testing.assert_array_equal(got, a.astype("clongdouble") @ b.astype("clongdouble"))


def errors(got, a, b):
    """Of the parts, the norms by those of the rows of op(A) and of op(B), in units of roundoff."""
    off = got - a.astype("clongdouble") @ b.astype("clongdouble")
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b)
    unit = np.finfo(got.dtype).eps / 2
    return np.array([np.linalg.norm(x.astype("f8"), axis=1) for x in (off.real, off.imag)]) / norms / unit


@pytest.mark.singly
@pytest.mark.parametrize("dtype", PARTS)
@pytest.mark.parametrize("k", [200, 2 * BLOCK + 8])
def test_errors_are_no_larger_than_those_of_sums(source, dtype, k):
    a, b, _ = operands(source, (dtype,) * 3, "NC", shape=(30, 20, k))
    got, report = result(source, "NC", scalars=("1", "0"))
    sums, _ = result(source, "NC", algo="auto", scalars=("1", "0"))
    assert errors(got, a, b).max() <= errors(sums, a, b).max()
    assert report["algorithm"] == USUAL[dtype]


def test_each_number_of_moduli_says_what_it_proves(source):
    a, b, _ = operands(source, shape=(30, 20, K))
    before = np.inf
    for moduli in 6, 9, 14, 15, 18:
        got, report = result(source, "NN", algo=f"ozaki:{moduli}", scalars=("1", "0"))
        assert errors(got, a, b).max() <= report["proven_units"] <= before
        before = report["proven_units"]
    assert before < 10


def test_small_beside_large(source):
    """Parts and elements of very different size: within the bound, by the norms."""
    a, b, _ = operands(source, shape=(12, 9, 700))
    a[3] *= 1e-120
    a[4] *= 1e-60
    a[5].real *= 1e-12
    b[:, 2] *= 1e60
    b[7] *= 1e30
    a[6, 9] = 0.5e-310 - 1e40j
    a[8] = 0
    with h5py.File(source, "a") as file:
        file["A"][()], file["B"][()] = a, b
    done = run("dgemm_ooc", source, "--algo", "ozaki:15", "--report", source.with_name("report.json"))
    assert done.returncode in (0, NOT_CHECKED), done.stderr
    got, report = read(output_of(source)), json.loads(source.with_name("report.json").read_text())
    rows = np.linalg.norm(b) * np.array([np.linalg.norm(row.astype("clongdouble")) for row in a])
    off = np.abs(got - a.astype("clongdouble") @ b.astype("clongdouble"))
    assert (off.max(axis=1) <= report["proven_units"] * 2.0 ** -53 * rows).all() and (got[8] == 0).all()


def test_nan_and_inf_stay_where_they_belong(source):
    a, b, _ = operands(source, kind=whole, shape=(20, 15, BLOCK + 50))
    plain, _ = result(source, "NN", scalars=("1", "0"))
    a[3, 5] = complex(np.nan, 1)
    b[BLOCK + 7, 4] = complex(2, -np.inf)
    with h5py.File(source, "a") as file:
        file["A"][()], file["B"][()] = a, b
    got, report = result(source, "NN", scalars=("1", "0"))
    touched = np.zeros(got.shape, bool)
    touched[3], touched[:, 4] = True, True
    np.testing.assert_array_equal(got[~touched], plain[~touched])
    assert not np.isfinite(got[touched].real).any() or not np.isfinite(got[touched].imag).any()
    assert np.isnan(got[3].real).all() and report["verdict"] == "PASSED"


def test_a_stopped_run_goes_on_to_the_same_bits_and_with_no_other_products(source):
    plain = source.with_name("plain.h5")
    operands(source, trans="TN", shape=(120, 80, K))
    shutil.copy2(source, plain)
    code, _, err = stop(source, "--algo", "ozaki", tile=["--tile", f"6x5x{BLOCK}"])
    assert code == 75, err
    again = options("TN", "1.5", "-2")
    done = run("dgemm_ooc", source, *again, "--algo", "ozaki:14")
    assert done.returncode == 3 and "kernels" in done.stderr, done.stderr
    done = run("dgemm_ooc", source, *again, "--algo", "ozaki", *LIMIT, ranks=2)
    assert done.returncode == 0 and "% is done" in done.stdout, done.stdout + done.stderr
    multiply(plain, *again, "--algo", "ozaki")
    assert read(output_of(source)).tobytes() == read(output_of(plain)).tobytes()
    with h5py.File(output_of(source)) as file:
        assert file["C"].attrs["kernels"] == b"ozaki:15" or file["C"].attrs["kernels"] == "ozaki:15"
    done = run("dgemm_ooc", source, "--check-only")
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("fault, said", [("gemm:flip@2", "differs by"), ("gemm:residue@2", "it cannot be right")])
def test_what_goes_wrong_on_the_device_is_found_and_multiplied_again(problem, fault, said, tmp_path):
    source, reference = problem
    line = [FAULTY, source, "--algo", "ozaki", *options("TC", *SCALARS), "--tile", f"9x5x{BLOCK}", "-o",
            tmp_path / "result.h5"]
    done = run(*line, DGEMM_OOC_TEST_FAULTS=fault)
    assert done.returncode == 0 and said in done.stderr and "computed again" in done.stderr, done.stderr
    assert read(tmp_path / "result.h5").tobytes() == reference
    assert run(*line, "--force", DGEMM_OOC_TEST_FAULTS=fault + "+").returncode == VERIFY


def test_a_dry_run_plans_two_products_a_modulus(tmp_path):
    """A complex product with 15 moduli takes 30 products of bytes, a real one with 14 as many of the same size, by
    which the rate of 8 operations for a complex multiply-add is 28/15 of that of 2 for a real one."""
    rates = json.loads((ROOT / "jobs/machines/h200-node.json").read_text())
    rates |= {"disk_read_bytes_per_s": 200e9, "disk_write_bytes_per_s": 200e9, "ranks": 1}
    (tmp_path / "machine.json").write_text(json.dumps(rates))
    rate = {}
    for dtype, moduli in ("f8", 14), ("c16", 15):
        source = tmp_path / f"{dtype}.h5"
        with h5py.File(source, "w") as file:
            for name in "A", "B":
                file.create_dataset(name, (49152, 49152), dtype, chunks=(2048, 2048))  # takes no space
        line = ["dgemm_ooc", source, "--dry-run", "--machine", tmp_path / "machine.json"]
        assert f"--algo ozaki:{moduli}: " in run(*line).stdout
        said = run(*line, "--algo", "ozaki", "--report", tmp_path / "plan.json").stdout
        assert f"in residues of {moduli} moduli" in said, said
        rate[dtype] = json.loads((tmp_path / "plan.json").read_text())["plan"]["gemm_flops_per_s"]
    assert rate["c16"] / rate["f8"] == pytest.approx(28 / 15)
