"""The files are read back and checked: correct files pass, others end with exit code 5."""
import json

import h5py
import numpy as np
import pytest

from cases import each
from launch import BUILD, FAULTY, WAYS, run
from matrices import (multiply, operands, output_of, product, random, read, scalars, snapshot,
                      whole, write)

VERIFY = 5
SIZE = (97, 101, 211)
TINY = ["--gpu-memory", "40K", "--host-memory", "24M"]
TYPES = ["f4", "f8"]


def check(source, *options, ranks=0, code=0, says=()):
    """Run --check-only, which changes no file.  Returns its output, and the complaint if it fails."""
    before = snapshot(source.parent)
    done = run("dgemm_ooc", source, "--check-only", *options, ranks=ranks)
    assert done.returncode == code, done.stdout + done.stderr
    assert snapshot(source.parent) == before
    for words in says:
        assert words in done.stdout + done.stderr
    last = (done.stdout.splitlines() or [""])[-1]
    assert last.endswith({0: ": PASSED", 6: ": NOT CHECKED"}.get(code, "")) and ("RESULT" in last) == (code in (0, 6))
    return done.stdout + done.stderr


def flip(path, name, bit):
    """Flip one bit of a contiguous dataset, at this offset from its start."""
    with h5py.File(path) as file:
        at = file[name].id.get_offset() + bit // 8
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit % 8]))


def assert_read_back(report):
    full = report["full_check"]
    assert full["checksum"] == full["checksum_recorded"] == report["checksum"]
    assert full["verdict"] == "PASSED" and full["residual"] <= 1 and full["busy_s"] > 0
    assert full["elements_not_finite"] == full["elements_not_judged"] == 0


@pytest.mark.parametrize("dtype, decades", [("f4", 2), ("f4", 3), ("f8", 6), ("f8", 8)])
def test_units_that_cancel_weaken_no_check(tmp_path, device, dtype, decades):
    """Columns of A in units of their own, and rows of B in the inverse ones."""
    units = 10 ** (decades * random((200,), "f8", 3))
    source, report = write(tmp_path / "input.h5", A=(random((300, 200), "f8", 1) * units).astype(dtype),
                           B=(random((200, 100), "f8", 2) / units[:, None]).astype(dtype)), tmp_path / "report.json"
    done = run("dgemm_ooc", source, "--verify", "full", "--report", report, DGEMM_OOC_DEVICE=device)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    most = 0.1 if dtype == "f4" else 1e-9
    assert 0 < found["detectable"] < most and 0 < found["full_check"]["detectable"] < most


@pytest.mark.singly
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("trans", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("factors", [(1, 0), (2.5, -0.5), (0, 2)])
def test_every_kind(tmp_path, device, dtype, trans, factors):
    source, problem = tmp_path / "input.h5", dict(trans=trans, alpha=factors[0], beta=factors[1])
    matrices = operands(source, *SIZE, dtype, trans)
    report = multiply(source, *scalars(**problem), *TINY, "--verify", "full", device=device)
    assert_read_back(report)
    used = [bool(factors[0])] * 2 + [bool(factors[1])]
    nbytes = sum(x.nbytes for x, is_read in zip(matrices, used) if is_read)
    assert report["full_check"]["bytes"] == nbytes + read(output_of(source)).nbytes
    check(source, says=["checksum equal"])


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("size, dtype, trans", [
    (SIZE, "f8", "TN"), (SIZE, "f4", "NT"), ((2, 3, 50), "f8", "NN"), ((3, 1, 0), "f8", "NN")])
def test_ranks(tmp_path, device, ranks, size, dtype, trans):
    """The checksum is the same for any number of ranks that write or check, and any tiles."""
    source = tmp_path / "input.h5"
    operands(source, *size, dtype, trans)
    options = scalars(trans, 2, 1)
    first = multiply(source, *options, device=device)
    other = multiply(source, *options, *TINY, "--verify", "full", "--force", ranks=ranks,
                     device=device)
    assert_read_back(other)
    assert other["checksum"] == first["checksum"]
    check(source, ranks=ranks)


@pytest.mark.singly
@pytest.mark.parametrize("chunks", [(16, 16), (1, 100), (100, 1), (200, 300)], ids=str)
@pytest.mark.parametrize("ranks, trans", [(0, "NN"), (3, "TT")])
def test_chunked_inputs(tmp_path, ranks, chunks, trans):
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        for seed, name in enumerate("ABC"):
            file.create_dataset(name, data=random((200, 300) if name == "A" else (300, 200)
                                                  if name == "B" else (200, 200), seed=seed)
                                if trans == "NN" else random((300, 300), seed=seed),
                                chunks=tuple(map(min, zip(chunks, (200, 200)))),
                                compression="gzip", compression_opts=1)
    assert_read_back(multiply(source, *scalars(trans, 1, 1), "--verify", "full", ranks=ranks))


@each("way", WAYS)
def test_ways(tmp_path, way):
    source = tmp_path / "input.h5"
    operands(source, *SIZE)
    assert_read_back(multiply(source, "--io", way, "--beta", 2, "--verify", "full"))


@pytest.mark.smoke
def test_conversion(tmp_path):
    source = write(tmp_path / "input.h5", A=whole((30, 40), "i4"), B=random((40, 20), "f4"))
    assert_read_back(multiply(source, "--type", "d", "--verify", "full"))
    check(source, says=["checksum equal"])
    check(source, "--type", "s", code=3, says=["C is double, but --type s is given"])


def test_large_enough_to_be_cut(tmp_path):
    """There are several parts for each of several threads."""
    source = tmp_path / "input.h5"
    operands(source, 1500, 1300, 700, trans="TN")
    options = ["--transa", "T", "--beta", 1, "--host-memory", "24M", "--verify", "full"]
    assert_read_back(multiply(source, *options, OMP_NUM_THREADS="3"))


@pytest.mark.parametrize("dtype", TYPES)
def test_every_bit_of_a_byte_position(tmp_path, dtype):
    """Low bits of the mantissa, exponent and sign: a tolerance would miss most of them."""
    source, rng = tmp_path / "input.h5", np.random.default_rng(1)
    operands(source, 20, 30, 40, dtype)
    multiply(source)
    bits = 8 * np.dtype(dtype).itemsize
    for bit in [0, 1, 7, 20, bits // 2, bits - 13, bits - 2, bits - 1]:
        at = int(rng.integers(20 * 30)) * bits + bit
        flip(output_of(source), "C", at)
        check(source, code=VERIFY, says=["differs from what was written: its checksum is"])
        flip(output_of(source), "C", at)
    check(source)


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_inputs_that_changed(tmp_path, ranks, name):
    """The checksum still matches, but the product does not."""
    source = tmp_path / "input.h5"
    operands(source, 40, 50, 60, trans="NT")
    multiply(source, *scalars("NT", 1, 2))
    flip(source, name, 64 * 777 + 63)
    said = check(source, ranks=ranks, code=VERIFY, says=["the full check failed: row "])
    assert said.count("full check failed") == 1 and "checksum" not in said


@pytest.mark.smoke
def test_options_come_from_the_output(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 30, 30, 30, trans="TN")
    multiply(source, *scalars("TN", 1.5, 2))
    check(source)
    check(source, *scalars("TN", 1.5, 2))
    check(source, "--alpha", 3, code=3, says=["C was made with --alpha 1.5, not with the --alpha 3 that was given"])
    check(source, "--beta", 0, code=3, says=["C was made with --beta 2"])
    check(source, "--transa", "N", "--transb", "T", code=3, says=[
        "C was made with --transa T, not with the --transa N that was given", "C was made with --transb N"])


def test_operands_by_name(tmp_path):
    """They are those that C names, unless they are given."""
    a, b = random((20, 30)), random((30, 10))
    source = write(tmp_path / "input.h5", X=a, Y=b, Z=b)
    names, there = ["-a", "X", "-b", "Y"], ["-o", tmp_path / "result.h5:/a/product"]
    multiply(source, *names, *there)
    check(source, *names, *there)
    check(source, *there, says=[f"Operands    A = {source}:X, B = {source}:Y\n"])
    check(source, *there, "-b", "Z", code=3, says=['C was made from B = "Y", not from the -b "Z" that was given; leave -b'])
    with h5py.File(source, "a") as file:
        file.move("Y", "V")
    check(source, *there, code=3, says=[f'C was made from B = "Y" of {source}, and there is no {source}:Y; give -b FILE'])
    check(source, *there, "-b", "V")


def alone(folder, *words, **how):
    """--check-only without INPUT.h5."""
    return run("dgemm_ooc", "--check-only", *words, cwd=folder, **how)


def test_operands_come_from_the_output(tmp_path):
    """Also where they are of several files, and where these have moved."""
    a, b, c = random((20, 30)), random((30, 10)), random((20, 10))
    source, other, third = (write(tmp_path / name, **{key: matrix}) for name, key, matrix in
                            (("input.h5", "A", a), ("other.h5", "A", b), ("third.h5", "Z", c)))
    there = ["-o", tmp_path / "result.h5"]
    multiply(source, "-b", f"{other}:/A", "-c", f"{third}:/Z", "--beta", 2, *there)
    check(source, *there, ranks=2)
    done = alone(tmp_path, *there)
    assert done.returncode == 0 and f"A = {source}:A, B = {other}:/A" in done.stdout, done.stderr
    moved = tmp_path / "moved"
    moved.mkdir()
    source, other = source.rename(moved / "input.h5"), other.rename(moved / "b.h5")
    done = alone(tmp_path, source, *there)
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1
    assert "other.h5:/A; give -b FILE.h5:/path to say where that is now" in done.stderr
    assert alone(tmp_path, source, *there, "-b", f"{other}:/A").returncode == 0


def test_what_was_made_of_one_matrix(tmp_path):
    """A covariance needs no -b, and follows its matrix."""
    source = write(tmp_path / "input.h5", data=random((20, 30)))
    there = ["-o", tmp_path / "cov.h5"]
    multiply(source, "--product", "cov", "-a", "data", *there)
    check(source, *there)
    check(source, *there, "--product", "cov", "-a", "data")
    moved = source.rename(tmp_path / "moved.h5")
    check(moved, *there)
    assert alone(tmp_path, *there, "-a", f"{moved}:/data").returncode == 0
    assert alone(tmp_path, *there).returncode == 3


def test_output_without_a_word_on_its_operands(tmp_path):
    a, b = random((20, 30)), random((30, 10))
    source = write(tmp_path / "input.h5", A=a, B=b)
    write(output_of(source), C=a @ b)
    check(source)
    done = alone(tmp_path, "-o", output_of(source))
    assert done.returncode == 2 and done.stderr.count("does not say where ") == 2
    assert "does not say where B is; give INPUT.h5, or -b FILE.h5:/path" in done.stderr


def test_made_by_others(tmp_path):
    a, b = random((50, 60)), random((60, 40))
    source = write(tmp_path / "input.h5", A=a, B=b)
    write(output_of(source), C=product(a, b, alpha=2))
    check(source, "--alpha", 2, says=["no checksum recorded"])
    check(source, "--alpha", 2.000001, code=VERIFY, says=["the full check failed: row "])
    check(source, code=VERIFY)


@pytest.mark.parametrize("c, words", [
    (None, "there is no output "), (random((4, 5)), "is 4x5, but op(A) op(B) is 5x7"),
    (whole((5, 7), "i4"), "does not hold floats, doubles or int64")], ids=["none", "shape", "type"])
def test_no_such_output(tmp_path, c, words):
    source = write(tmp_path / "input.h5", A=random((5, 6)), B=random((6, 7)))
    if c is not None:
        write(output_of(source), C=c)
    check(source, code=3, says=[words])


def test_damaged_record(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 5, 6, 7)
    multiply(source)
    with h5py.File(output_of(source), "a") as file:
        file["C"].attrs["checksum"] = "0123456789abcdeg"
    check(source, code=VERIFY, says=["the checksum recorded for C is damaged"])


def test_c0_must_still_be_there(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 5, 6, 7)
    multiply(source, "--beta", 1)
    with h5py.File(source, "a") as file:
        del file["C"]
    check(source, code=3, says=['C was made from C0 = "C"', "give -c FILE.h5:/path to say where that is now"])


@pytest.mark.parametrize("beta", [0, 1])
def test_nan_and_inf(tmp_path, beta):
    """Rows with NaN or Inf must be NaN or Inf; the effect of those in C0 cannot be checked.  The checksum
    covers all bits."""
    a, b, c = random((50, 64)), random((64, 45), seed=1), random((50, 45), seed=2)
    a[3, 4], a[12, 1], c[20, 20] = np.nan, np.inf, np.nan
    source = write(tmp_path / "input.h5", A=a, B=b, C=c)
    path = source.with_suffix(".json")
    done = run("dgemm_ooc", source, "--beta", beta, "--verify", "full", "--report", path)
    assert done.returncode == (6 if beta else 0), done.stderr
    assert ", 90 elements are NaN or Inf: " in done.stdout.splitlines()[-1]
    report = json.loads(path.read_text())
    assert report["verdict"] == "PASSED" and report["elements_not_finite"] == 2 * 45
    assert report["full_check"]["elements_not_finite"] == 2 * 45
    assert (report["full_check"]["elements_not_judged"] > 0) == bool(beta)
    check(source, code=6 if beta else 0)
    flip(output_of(source), "C", 64 * (3 * 45 + 7) + 1)
    check(source, code=VERIFY, says=["differs from what was written"])


def test_more_columns_than_all_that_k_needs(tmp_path):
    """Columns that are left out do not reduce the space of others."""
    a, b = random((50, 1)), random((1, 5000), seed=1)
    b[0, 77] = np.nan
    report = multiply(write(tmp_path / "input.h5", A=a, B=b), "--verify", "full")
    for found in (report, report["full_check"]):
        assert found["verdict"] == "PASSED" and found["elements_not_finite"] == 50


def test_a_column_of_nan_leaves_c0_alone(tmp_path):
    a, b, c = random((20, 30)), random((30, 20), seed=1), random((20, 20), seed=2)
    b[3, 4] = np.nan
    report = multiply(write(tmp_path / "input.h5", A=a, B=b, C=c), "--beta", 1, "--verify", "full")
    assert report["full_check"]["elements_not_finite"] == 20
    assert report["full_check"]["elements_not_judged"] == 0


@pytest.mark.parametrize("size, alpha", [(1e-22, 1e20), (1e20, 1e-20), (1e-3, 1e30)])
def test_alpha_of_any_size(tmp_path, size, alpha):
    """Correct products are never refused; those that overflow or are nearly 0 may be NOT CHECKED."""
    a, b = size * random((40, 60)), size * random((60, 30), seed=1)
    source = write(tmp_path / "input.h5", A=a.astype("f4"), B=b.astype("f4"))
    done = run("dgemm_ooc", source, f"--alpha={alpha}", "--verify", "full")
    assert done.returncode in (0, 6), done.stderr


def test_what_alpha_makes_overflow_is_said(tmp_path):
    """This is found when C is read back; the sums themselves are finite."""
    source = write(tmp_path / "input.h5", A=1e10 * random((20, 30)), B=random((30, 20), seed=1))
    done = run("dgemm_ooc", source, "--alpha=1e300", "--verify", "full")
    assert done.returncode == 6 and done.stdout.splitlines()[-1].endswith(": NOT CHECKED")


@pytest.mark.parametrize("option", ["--alpha=1e39", "--alpha=1e-60", "--beta=-1e40"])
def test_scalars_out_of_the_range_of_floats_are_refused(tmp_path, option):
    source = tmp_path / "input.h5"
    operands(source, 5, 6, 7, "f4")
    done = run("dgemm_ooc", source, option)
    assert done.returncode == 2 and "give --type d" in done.stderr
    assert run("dgemm_ooc", source, option, "--type", "d").returncode == 0


@pytest.mark.parametrize("a, b", [([[0, 1], [0, 2]], [[1, 2, 3], [0, 0, 0]]), ([[0, 0]], [[1], [2]])])
def test_products_that_are_0(tmp_path, a, b):
    source = write(tmp_path / "input.h5", A=np.array(a, "f8"), B=np.array(b, "f8"))
    multiply(source)
    check(source)


def test_rows_of_zeros_under_a_huge_alpha(tmp_path):
    source = write(tmp_path / "input.h5", A=np.eye(5, 3), B=random((3, 40)))
    assert multiply(source, "--alpha=1e160", "--verify", "full")["full_check"]["residual"] <= 1


@each("seed", range(1, 9))
def test_a_row_does_not_make_another_look_checked(tmp_path, seed):
    """An error of the printed size is found in a row whose sums cancel, beside rows whose sums do not.  A typical
    element is the root mean square of all elements by their reach, times the reach of the row."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal((64, 4096))
    a -= a.mean(axis=1, keepdims=True)
    a[::16] = 1
    b = 1 + 0.1 * rng.standard_normal((4096, 64))
    source = write(tmp_path / "input.h5", A=a.astype("f4"), B=b.astype("f4"))
    done = run("dgemm_ooc", source)
    assert done.returncode in (0, 6), done.stderr
    with h5py.File(output_of(source), "r+") as file:
        del file["C"].attrs["checksum"]
        reach = np.abs(a) @ np.linalg.norm(b, axis=1) / np.sqrt(64)
        typical = np.sqrt(np.mean((file["C"][:] / reach[:, None]) ** 2)) * reach[3]
        file["C"][3, 5] += 0.5 * typical
    checked = run("dgemm_ooc", source, "--check-only", "--check-seed", seed)
    assert checked.returncode == 5, checked.stdout


def test_report_of_a_check(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 30, 20, 10)
    written = multiply(source)
    path = tmp_path / "check.json"
    done = run("dgemm_ooc", source, "--check-only", "-q", "--report", path, ranks=2)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1
    report = json.loads(path.read_text())
    assert report["full_check"]["checksum"] == written["checksum"]
    assert report["problem"]["m"] == 30


def test_off_records_nothing(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 30, 20, 10)
    report = multiply(source, "--verify", "off")
    assert report["checksum"] is None and "full_check" not in report
    with h5py.File(output_of(source)) as file:
        assert "checksum" not in file["C"].attrs
    check(source, says=["no checksum recorded"])


@pytest.mark.parametrize("verify", ["online", "full"])
def test_a_disk_that_flips_a_bit(tmp_path, verify):
    """The bit flips while C is written: the full check withholds the final name; otherwise a later check finds
    the error."""
    if not (BUILD / FAULTY).exists():
        pytest.skip("the program with faults is not built: make test")
    source = tmp_path / "input.h5"
    operands(source, 1, 500, 10)
    before = snapshot(tmp_path)
    done = run(FAULTY, source, "--verify", verify, DGEMM_OOC_TEST_FAULTS="pwrite:flip@1",
               DGEMM_OOC_TEST_FAULT_FILE="input-C.h5.part")
    if verify == "full":
        assert done.returncode == VERIFY and "differs from what was written" in done.stderr
        assert snapshot(tmp_path) == before
    else:
        assert done.returncode == 0, done.stderr
        check(source, code=VERIFY, says=["differs from what was written"])


def test_rounding_that_adds_up_does_not_pass(tmp_path):
    """Floats stop at 2^24: the size that is printed covers it, and a remedy is named."""
    source, count = tmp_path / "input.h5", 36_000_000
    write(source, A=np.ones((1, count), "i1"))
    done = run("dgemm_ooc", source, "--product", "gram", "--type", "s", "-q", "--report", tmp_path / "r.json")
    assert done.returncode == 6, done.stdout + done.stderr
    assert "--type d or --algo ozaki rounds less): NOT CHECKED" in done.stdout.splitlines()[-1]
    error = count / float(read(output_of(source))[0, 0]) - 1
    assert 1 < error < json.loads((tmp_path / "r.json").read_text())["detectable"]


@pytest.mark.parametrize("dtype, bound", [("f8", 1e-11), ("f4", 30000 / 2**24)])
def test_diagonal_of_correlations(tmp_path, dtype, bound):
    """It is 1 up to the rounding of a sum of so many squares."""
    source = tmp_path / "input.h5"
    write(source, A=np.random.default_rng(1).uniform(5, 7, (6, 30000)).astype(dtype))
    done = run("dgemm_ooc", source, "--product", "cor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert np.abs(np.diag(read(output_of(source))) - 1).max() <= bound
