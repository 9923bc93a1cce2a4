"""Normal products: Z = A^T (A X) and Y = A X in one pass over A, the step of iterations for singular vectors and least
squares."""
import json
import os
import shutil
import signal

import h5py
import numpy as np
import pytest

from cases import each
from launch import FAULTY, run
from matrices import multiply, output_of, part_of, read, start_late, wait_until
from ranks import pids
from test_one_pass import saves

NORMAL = ["--product", "normal"]
U = {"f8": 2.0**-53, "f4": 2.0**-24}


def make(path, rows, cols, n, trans="N", dtype="f8", **storage):
    rng = np.random.default_rng(rows + cols + n)
    with h5py.File(path, "w") as file:
        file.create_dataset("A", data=rng.standard_normal((rows, cols)).astype(dtype), **storage)
        file.create_dataset("B", data=rng.standard_normal((cols if trans == "N" else rows, n)).astype(dtype), **storage)
    return path


def assert_right(source, output, trans="N", alpha=1.0, change=lambda a: a):
    """Within the bound of sums of so many products, of each; and Z is the product of this very Y."""
    a, x = read(source, "A"), read(source, "B")
    u = U[a.dtype.str[1:]]
    op = change(a.astype("f8")) if trans == "N" else change(a.astype("f8")).T
    y, z = read(output, "C_ab").astype("f8"), read(output).astype("f8")
    assert (np.abs(y - op @ x) <= (op.shape[1] + 4) * u * (np.abs(op) @ np.abs(x))).all()
    assert (np.abs(z - alpha * (op.T @ y)) <= (op.shape[0] + 4) * u * abs(alpha) * (np.abs(op.T) @ np.abs(y))).all()


def bits(output):
    return read(output).tobytes(), read(output, "C_ab").tobytes()


@pytest.mark.gpu
@pytest.mark.pairwise
@pytest.mark.parametrize("rows, cols, n", [(700, 90, 33), (20000, 64, 8), (60, 3000, 5), (129, 1, 1)])
@pytest.mark.parametrize("trans", "NT")
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("ranks", [0, 2, 3])
@pytest.mark.parametrize("storage", [{}, {"chunks": True, "compression": "gzip"}], ids=["contiguous", "chunked"])
@pytest.mark.parametrize("more", [[], ["--verify", "full"], ["--alpha", "-0.5"]], ids=" ".join)
def test_both_products(tmp_path, device, rows, cols, n, trans, dtype, ranks, storage, more):
    source = make(tmp_path / "input.h5", rows, cols, n, trans, dtype, **storage)
    report = multiply(source, *NORMAL, "--transa", trans, *more, ranks=ranks, device=device)
    assert_right(source, output_of(source), trans, -0.5 if "--alpha" in more else 1.0)
    assert report["verdict"] == "PASSED" and report["problem"]["normal"]
    assert report["stages"]["read"]["bytes"] <= 1.05 * read(source, "A").nbytes or storage
    done = run("dgemm_ooc", "--check-only", "-o", output_of(source))
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr


@pytest.mark.gpu
def test_the_same_bits_everywhere(tmp_path, device):
    """Blocks of rows are added along a tree that the shapes alone decide: layers of ranks share the rows of A."""
    source = make(tmp_path / "input.h5", 4000, 50, 6)
    found = set()
    for ranks, layers, more in [(0, 1, []), (0, 1, ["--gpu-memory", "800K"]), (2, 2, ["--verify", "full"]), (4, 4, []), (4, 2, [])]:
        output = tmp_path / "C.h5"
        report = multiply(source, *NORMAL, *more, "-o", output, "--force", ranks=ranks, device=device,
                          DGEMM_OOC_TEST_BLOCK="256", DGEMM_OOC_TEST_LAYERS=str(layers))
        found.add(bits(output))
        assert report["plan"]["layers"] == layers and report["verdict"] == "PASSED"
    assert len(found) == 1
    assert_right(source, output)


def test_sums_of_layers_are_resumed(tmp_path):
    source = make(tmp_path / "input.h5", 16384, 40, 4)
    blocks = {"DGEMM_OOC_TEST_BLOCK": "512", "DGEMM_OOC_TEST_LAYERS": "2"}
    words = [*NORMAL, "--gpu-memory", "500K"]
    multiply(source, *words, "-o", tmp_path / "whole.h5", **blocks)
    with start_late(source, *words, "--checkpoint", "0.05s", late="20", ranks=2, **blocks) as process:
        wait_until(lambda: saves(source), process)
        os.kill(pids(process, 2)[-1], signal.SIGUSR2)
        process.communicate()
    assert process.returncode == 75 and part_of(source).exists()
    assert multiply(source, *words, ranks=2, **blocks)["plan"]["layers"] == 2
    assert bits(output_of(source)) == bits(tmp_path / "whole.h5")


@each("words, change", [
    (["--center", "cols"], lambda a: a - a.mean(0)),
    (["--center", "cols", "--scale", "cols"], lambda a: (a - a.mean(0)) / a.std(0, ddof=1))])
@pytest.mark.parametrize("ranks", [0, 2])
def test_of_a_matrix_that_is_centred(tmp_path, words, change, ranks):
    """The step of principal components."""
    source = make(tmp_path / "input.h5", 900, 50, 7)
    multiply(source, *NORMAL, *words, "--verify", "full", ranks=ranks)
    a, x = read(source, "A"), read(source, "B")
    y = change(a) @ x
    np.testing.assert_allclose(read(output_of(source), "C_ab"), y, atol=1e-11)
    np.testing.assert_allclose(read(output_of(source)), change(a).T @ y, atol=1e-9)


def test_a_column_that_does_not_vary_is_not_divided(tmp_path):
    source = make(tmp_path / "input.h5", 400, 20, 3)
    with h5py.File(source, "r+") as file:
        file["A"][:, 4] = 7
    done = run("dgemm_ooc", source, *NORMAL, "--center", "cols", "--scale", "cols", "--verify", "full")
    assert done.returncode == 0 and "nothing is divided by it" in done.stderr, done.stderr
    assert np.isfinite(read(output_of(source), "C_ab")).all() and (read(output_of(source))[4] == 0).all()


@pytest.mark.parametrize("ranks", [0, 2])
def test_float16_is_multiplied_as_floats(tmp_path, ranks):
    source = make(tmp_path / "input.h5", 900, 70, 5, dtype="f4")
    with h5py.File(source, "r+") as file:
        half = file["A"][...].astype("f2")
        del file["A"]
        file["A"] = half
    multiply(source, *NORMAL, "--verify", "full", ranks=ranks)
    expected = bits(output_of(source))
    with h5py.File(source, "r+") as file:
        del file["A"]
        file["A"] = half.astype("f4")
    multiply(source, *NORMAL, "--force", "-o", tmp_path / "C.h5")
    assert bits(tmp_path / "C.h5") == expected


def test_other_forms_of_operands(tmp_path):
    source = make(tmp_path / "input.h5", 800, 60, 9)
    a, x = read(source, "A"), read(source, "B")
    multiply(source, *NORMAL)
    expected = bits(output_of(source))
    np.save(tmp_path / "A.npy", np.asfortranarray(a))
    np.save(tmp_path / "X.npy", x)
    with h5py.File(tmp_path / "half.h5", "w") as file:
        file["A"], file["B"] = np.repeat(a, 2, 0), x
    for operands in ([tmp_path / "A.npy", tmp_path / "X.npy"], ["-a", f"{tmp_path}/half.h5:/A[::2]", "-b", f"{source}:/B"]):
        done = run("dgemm_ooc", *operands, *NORMAL, "-o", tmp_path / "C.h5", "--force")
        assert done.returncode == 0, done.stderr
        assert bits(tmp_path / "C.h5") == expected


@pytest.mark.parametrize("ranks", [0, 2])
def test_a_run_that_is_killed_goes_on(tmp_path, ranks):
    source = make(tmp_path / "input.h5", 60000, 40, 4)
    words = [*NORMAL, "--gpu-memory", "1M"]
    multiply(source, *words, "-o", tmp_path / "whole.h5")
    with start_late(source, *words, "--checkpoint", "0.02s", late="20") as process:
        wait_until(lambda: saves(source), process)
        process.kill()
        process.communicate()
    assert part_of(source).exists()
    report = multiply(source, *words, ranks=ranks)
    assert "compared_bytes" in report["restart"]
    assert bits(output_of(source)) == bits(tmp_path / "whole.h5")


def test_what_is_damaged_between_runs_is_found(tmp_path):
    """Of C by its checksums, then all of it is computed again; of A X by the full check that such runs end with."""
    source = make(tmp_path / "input.h5", 400, 300, 8)
    multiply(source, *NORMAL)
    expected = bits(output_of(source))
    for name in ("C", "C_ab"):
        (tmp_path / "other.h5").unlink(missing_ok=True)
        done = run(FAULTY, source, *NORMAL, "-o", tmp_path / "other.h5", DGEMM_OOC_TEST_FAULTS="rename:eio@1")
        part = tmp_path / "other.h5.part"
        assert done.returncode != 0 and part.exists(), (done.returncode, done.stderr)
        with h5py.File(part, "r+") as file:
            file[name][100:110] += 1
        done = run("dgemm_ooc", source, *NORMAL, "-o", tmp_path / "other.h5")
        if name == "C":
            assert done.returncode == 0 and bits(tmp_path / "other.h5") == expected, done.stderr
        else:
            assert done.returncode == 5 and "A B, beside C," in done.stderr, done.stderr


def test_faults_of_a_device_are_found(tmp_path):
    """In either product: then all of it is multiplied again."""
    source = make(tmp_path / "input.h5", 3000, 40, 8)
    found = 0
    for at in range(1, 12):
        done = run(FAULTY, source, *NORMAL, "--force", "--device", "cpu", "--gpu-memory", "400K", DGEMM_OOC_TEST_FAULTS=f"gemm:flip@{at}")
        assert done.returncode == 0, done.stderr
        assert_right(source, output_of(source))
        output_of(source).unlink()
        found += "failed its check" in done.stderr
    assert found > 5


def test_damage_is_found(tmp_path):
    source = make(tmp_path / "input.h5", 500, 40, 8)
    multiply(source, *NORMAL)
    for name in ("C", "C_ab"):
        shutil.copy(output_of(source), tmp_path / "bad.h5")
        with h5py.File(tmp_path / "bad.h5", "r+") as file:
            file[name][3, 5] *= 1.001
        done = run("dgemm_ooc", "--check-only", "-o", tmp_path / "bad.h5")
        assert done.returncode == 5, (name, done.stdout, done.stderr)
    with h5py.File(tmp_path / "bad.h5", "r+") as file:
        del file["C_ab"]
    done = run("dgemm_ooc", "--check-only", "-o", tmp_path / "bad.h5")
    assert done.returncode == 3 and "C_ab" in done.stderr


def test_an_output_is_replaced_with_both(tmp_path):
    source = make(tmp_path / "input.h5", 200, 30, 4)
    multiply(source, *NORMAL)
    said = run("dgemm_ooc", source, *NORMAL, "-o", tmp_path / "other.h5").stdout
    assert "C = A^T (A B)" in said
    again = run("dgemm_ooc", source, *NORMAL)
    assert again.returncode == 0 and "was made from these operands already" in again.stdout
    multiply(source, *NORMAL, "--alpha", "2", "--force")
    with h5py.File(output_of(source), "r+") as file:
        file["other"] = 1
    done = run("dgemm_ooc", source, *NORMAL, "--force")
    assert done.returncode == 3 and "other" in done.stderr and "C_ab" not in done.stderr


@each("words, text", [
    (["--transb", "T"], "takes B as it is stored"), (["--beta", "1"], "leave --beta out"), (["--alpha", "0"], "nothing to compute"),
    (["-a", "empty", "-b", "none"], "nothing to compute"),
    (["-a", "ints", "-b", "ints"], "give --type d"), (["-a", "z", "-b", "z"], "is for real numbers"),
    (["--algo", "ozaki:14"], "without --algo ozaki"), (["--type-c", "s"], "leave --type-c out"),
    (["--grid", "2x1"], "leave --grid and --tile out"), (["--tile", "8x8x8"], "leave --grid and --tile out"),
    (["-b", "short"], "op(B) is 29x4"), (["-o", "C.npy"], "give -o a file of HDF5"), (["--gpu-memory", "20K"], "give at least --gpu-memory"),
    (["--symmetric", "lower"], "op(B) is not the transpose of op(A)")])
def test_mistakes(tmp_path, words, text):
    source = make(tmp_path / "input.h5", 200, 30, 4)
    with h5py.File(source, "r+") as file:
        file["empty"], file["none"] = np.ones((5, 0)), np.ones((0, 3))
        file["short"], file["ints"], file["z"] = np.ones((29, 4)), np.ones((30, 30), "i1"), np.ones((30, 30), "c16")
    done = run("dgemm_ooc", source, *NORMAL, "--device", "cpu", *words, cwd=tmp_path)
    assert done.returncode in (2, 3, 4) and text in done.stderr, (done.returncode, done.stderr)
    assert not output_of(source).exists()


def test_the_least_memory_is_enough(tmp_path):
    source = make(tmp_path / "input.h5", 5000, 300, 16)
    done = run("dgemm_ooc", source, *NORMAL, "--gpu-memory", "100K", "--device", "cpu")
    least = done.stderr.split("--gpu-memory ")[-1].split("K")[0]
    report = multiply(source, *NORMAL, "--gpu-memory", f"{least}K", "--device", "cpu")
    assert report["verdict"] == "PASSED"
    assert_right(source, output_of(source))


def test_a_dry_run_counts_both_products(tmp_path):
    source = make(tmp_path / "input.h5", 20000, 300, 16)
    done = run("dgemm_ooc", source, *NORMAL, "--dry-run", "--report", "-", "-q")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout[done.stdout.index("{"):])
    assert plan["predicted"]["resources"]["multiply"]["flops"] == 4 * 20000 * 300 * 16
