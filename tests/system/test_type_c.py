"""--type-c: C holds floats of sums of doubles: those that NumPy makes of the doubles that the run without it writes."""
import h5py
import numpy as np
import pytest

from launch import BUILD, FAULTY, run
from matrices import multiply, operands, output_of, random, read, write
from test_bad_input import assert_refused
from test_restart import DEEP, stop_within_k
from test_saved import OPTIONS, SMALL_TILES, stop

LIMITS = ["--gpu-memory", "60K", "--host-memory", "64M"]
GRAM = ["-b", "A", "--transb", "T"]


def letter(complex_numbers):
    return ["--type-c", "c" if complex_numbers else "s"]


def make(path, shape=(61, 47, 130), complex_numbers=False):
    """A file with A, B, C0 and its floats."""
    m, n, k = shape
    a, b, c = random((m, k), seed=1), random((k, n), seed=2), random((m, n), seed=3)
    if complex_numbers:
        a, b, c = (x + 1j * random(x.shape, seed=4) for x in (a, b, c))
    floats = c.astype("c8" if complex_numbers else "f4")
    return write(path, A=a, B=b, C=c, floats=floats, widened=floats.astype(c.dtype))


def expected_of(source, *options, floats=None, **how):
    """The floats of the C of a run without the option."""
    output = source.with_name("doubles.h5")
    report = multiply(source, "-o", output, "--force", *options, **how)
    c = read(output)
    with np.errstate(over="ignore"):
        return report, c.astype(floats or ("c8" if c.dtype.kind == "c" else "f4"))


def assert_rounded(source, *options, device="cpu", ranks=0, **env):
    """Returns the reports of both runs."""
    doubles, expected = expected_of(source, *(x.replace("floats", "widened") for x in options), device=device,
                                    ranks=ranks, **env)
    report = multiply(source, *letter(expected.dtype.kind == "c"), "--force", *options, device=device, ranks=ranks,
                      **env)
    c = read(output_of(source))
    assert c.dtype == expected.dtype and c.tobytes() == expected.tobytes()
    return doubles, report


@pytest.mark.singly
@pytest.mark.parametrize("complex_numbers", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("options", [
    [], ["--alpha", "1.7", "--beta", "-0.3"], ["--beta", "2", "-c", "floats"], ["--verify", "full"],
    ["--beta", "1", "--io", "direct"], ["--alpha", "0", "--beta", "3"], GRAM, [*GRAM, "--symmetric", "lower"],
    ["--product", "gram", "--transa", "T", "--verify", "full"]], ids=" ".join)
def test_bits(tmp_path, device, complex_numbers, ranks, options):
    source = make(tmp_path / "input.h5", (61, 61, 130), complex_numbers)
    doubles, report = assert_rounded(source, *options, *LIMITS, device=device, ranks=ranks)
    assert (report["problem"]["type"], report["problem"]["type_c"]) == ("double", "float")
    assert doubles["problem"]["type_c"] == "double"
    assert report["stages"]["write"]["bytes"] == doubles["stages"]["write"]["bytes"] / 2
    assert report["stages"]["out"]["bytes"] == doubles["stages"]["out"]["bytes"]
    assert report["pieces"] > 1 or report["stages"]["write"]["bytes"] == report["plan"]["write_bytes"]


@pytest.mark.singly
@pytest.mark.parametrize("options", [
    ["--product", "cov"], ["--product", "cor", "--transa", "T"], ["--product", "gram", "--center", "cols"]], ids=" ".join)
@pytest.mark.parametrize("ranks", [0, 3])
def test_centred_products(tmp_path, device, ranks, options):
    source = make(tmp_path / "input.h5")
    assert_rounded(source, *options, "--verify", "full", *LIMITS, device=device, ranks=ranks)
    assert run("dgemm_ooc", "--check-only", source).returncode == 0


@pytest.mark.singly
@pytest.mark.parametrize("ranks, layers", [(0, 1), (2, 1), (4, 2)])
def test_long_k(tmp_path, device, ranks, layers):
    source = make(tmp_path / "input.h5", (67, 50, 997))
    assert_rounded(source, "--alpha", "0.7", ranks=ranks, device=device, DGEMM_OOC_TEST_BLOCK="64",
                   DGEMM_OOC_TEST_LAYERS=str(layers))


def test_residues(tmp_path, gpu):
    source = make(tmp_path / "input.h5")
    assert_rounded(source, "--algo", "ozaki", "--gpu-memory", "16M", "--verify", "full", device=gpu)


def test_integers_as_doubles(tmp_path):
    numbers = np.random.default_rng(1).integers(-30000, 30000, (40, 300)).astype("i2")
    source = write(tmp_path / "input.h5", A=numbers)
    _, report = assert_rounded(source, *GRAM, "--type", "d", "--alpha", "0.1", "--verify", "full")
    assert report["problem"]["exact"] == "exact integers: int16 x int16 -> float"
    assert report["finding"].startswith("an error of ") and report["detectable"] > 2**-24


@pytest.mark.parametrize("ranks, options", [
    (0, ["--tile", "400x380x16"]), (3, ["--grid", "3x1", "--tile", "134x380x16"])], ids=str)
def test_stopped_within_k(tmp_path, ranks, options):
    """The sums that wait are doubles."""
    source = tmp_path / "input.h5"
    operands(source, *DEEP)
    expected = expected_of(source)[1]
    stop_within_k(source, ranks, *options, "--type-c", "s")
    multiply(source, "--type-c", "s", "--restart", "require", ranks=ranks)
    np.testing.assert_array_equal(read(output_of(source)), expected)


@pytest.mark.parametrize("ranks, later", [(0, 2), (2, 0)])
def test_stopped_within_c(tmp_path, ranks, later):
    """What is complete of C is floats, whose checksums are compared."""
    source = tmp_path / "input.h5"
    operands(source, 900, 800, 1000)
    expected = expected_of(source, *OPTIONS)[1]
    stop(source, *SMALL_TILES, "--type-c", "s", ranks=ranks)
    report = multiply(source, *OPTIONS, "--type-c", "s", "--restart", "require", ranks=later)
    assert report["restart"]["compared_bytes"] > 0
    np.testing.assert_array_equal(read(output_of(source)), expected)


def test_a_stopped_run_is_of_another_product(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 900, 800, 1000)
    stop(source, *SMALL_TILES, "--type-c", "s")
    done = run("dgemm_ooc", source, *OPTIONS, "--restart", "require")
    assert done.returncode == 3, done.stdout


@pytest.mark.parametrize("complex_numbers", [False, True], ids=["real", "complex"])
def test_check_only(tmp_path, complex_numbers):
    """Without the option, and with it; a wrong element is found by the checksum."""
    source = make(tmp_path / "input.h5", complex_numbers=complex_numbers)
    multiply(source, *letter(complex_numbers))
    for options in [], letter(complex_numbers), ["--type", "z" if complex_numbers else "d"]:
        done = run("dgemm_ooc", source, "--check-only", *options)
        assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr
    done = run("dgemm_ooc", source, "--check-only", "--type", "c" if complex_numbers else "s")
    assert done.returncode == 3 and "sums of C are" in done.stderr
    with h5py.File(output_of(source), "a") as file:
        file["C"][7, 8] *= np.float32(1 + 2**-23)
    done = run("dgemm_ooc", source, "--check-only")
    assert done.returncode == 5 and "differs from what was written" in done.stderr


@pytest.mark.parametrize("error, status", [(0, 0), (1e-3, 5)])
def test_check_of_what_numpy_has_made(tmp_path, error, status):
    source = make(tmp_path / "input.h5", (100, 200, 50))
    c = (read(source, "A") @ read(source, "B")).astype("f4")
    c[17, 23] += error
    write(output_of(source), C=c)
    done = run("dgemm_ooc", source, "--check-only", "--type", "d", "--type-c", "s")
    assert done.returncode == status, done.stdout + done.stderr
    assert error or "down to" in done.stdout


def test_a_c_of_floats_is_not_one_of_doubles(tmp_path):
    source = write(tmp_path / "input.h5", A=random((20, 30), "f4"), B=random((30, 10), "f4"))
    multiply(source)
    done = run("dgemm_ooc", source, "--check-only", "--type", "d", "--type-c", "s")
    assert done.returncode == 3 and "C is float, but --type d is given" in done.stderr
    assert run("dgemm_ooc", source, "--check-only", "--type-c", "s").returncode == 0


@pytest.mark.parametrize("full", [False, True], ids=["online", "full"])
def test_elements_that_become_infinite(tmp_path, full):
    """They are counted among those that overflow, as the sums of floats are."""
    source = tmp_path / "input.h5"
    a = random((30, 20))
    a[3] *= 1e39
    write(source, A=a, B=random((20, 10)))
    done = run("dgemm_ooc", source, "--type-c", "s", *(["--verify", "full"] if full else []))
    c, expected = read(output_of(source)), expected_of(source)[1]
    np.testing.assert_array_equal(c, expected)
    count = 10 if full else np.isinf(c).sum()  # the full check has one number for all of such a row
    assert count and done.returncode == 6, done.stderr
    assert f"RESULT: C complete, checked except {count} elements: NOT CHECKED" in done.stdout
    done = run("dgemm_ooc", source, "--check-only")
    assert done.returncode == 6, done.stderr


def test_the_size_has_the_rounding(tmp_path):
    source = make(tmp_path / "input.h5")
    doubles, report = assert_rounded(source)
    assert doubles["detectable"] + 2**-24 < report["detectable"] < 1e-5


def test_given_again(tmp_path):
    source = make(tmp_path / "input.h5")
    multiply(source, "--type-c", "s")
    done = run("dgemm_ooc", source, "--type-c", "s")
    assert done.returncode == 0 and "complete" in done.stdout
    assert run("dgemm_ooc", source).returncode == 3


def test_the_type_of_sums_is_no_conversion(tmp_path):
    source = make(tmp_path / "input.h5")
    report = multiply(source, "--type-c", "d")
    assert report["problem"]["type_c"] == "double"
    assert read(output_of(source)).dtype == "f8"


def test_dry_run(tmp_path):
    source = make(tmp_path / "input.h5")
    done = run("dgemm_ooc", source, "--type-c", "s", "--dry-run", "-v")
    assert done.returncode == 0 and "double rounded to float" in done.stdout


@pytest.mark.parametrize("options, code, says", [
    (["--type-c", "x"], 2, "--type-c"),
    (["--type", "s", "--type-c", "d"], 3, "sums of floats are floats; give --type d for sums of doubles"),
    (["--type-c", "c"], 3, "the product is real; give --type-c s"),
    (["--type", "z", "--type-c", "s"], 3, "the product is complex; give --type-c c"),
    (["-c", "floats", "--beta", "1"], 3, "C is float but A is double")], ids=str)
def test_mistakes(tmp_path, options, code, says):
    source = make(tmp_path / "input.h5")
    assert_refused(tmp_path, source, *options, code=code, says=[says])


def test_integers_need_a_type(tmp_path):
    numbers = np.arange(12, dtype="i2").reshape(3, 4)
    source = write(tmp_path / "input.h5", A=numbers, B=numbers.T)
    assert_refused(tmp_path, source, "--type-c", "s", says=["C is int64; give --type d, too"])


@pytest.mark.skipif(not (BUILD / FAULTY).exists(), reason="the program with faults is not built")
@pytest.mark.parametrize("options", [["--tile", "24x24x128"], GRAM], ids=" ".join)
def test_a_tile_that_is_computed_again(tmp_path, options):
    """Its checksum, which is taken out of that of C, is of floats."""
    source = make(tmp_path / "input.h5", (61, 61, 130))
    expected = expected_of(source, *options)[1]
    done = run(FAULTY, source, *options, "--type-c", "s", DGEMM_OOC_TEST_FAULTS="gemm:flip@2", DGEMM_OOC_DEVICE="cpu")
    assert done.returncode == 0 and "computed again" in done.stdout + done.stderr, done.stdout + done.stderr
    np.testing.assert_array_equal(read(output_of(source)), expected)
    assert run("dgemm_ooc", source, "--check-only").returncode == 0


def test_files_of_numpy(tmp_path):
    """A C of floats can be added again."""
    source = make(tmp_path / "input.h5")
    expected = expected_of(source)[1]
    c, added = tmp_path / "C.npy", tmp_path / "D.npy"
    for words in [["-o", c], ["-o", added, "-c", c, "--beta", "2"]]:
        done = run("dgemm_ooc", source, "--type-c", "s", *words)
        assert done.returncode == 0, done.stderr
        assert run("dgemm_ooc", "--check-only", "-o", words[1]).returncode == 0
    np.testing.assert_array_equal(np.load(c), expected)
    doubles = read(tmp_path / "doubles.h5")
    np.testing.assert_allclose(np.load(added), doubles + 2 * expected.astype("f8"), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("alpha, verdict", [("1e-30", "PASSED"), ("1e-46", "NOT CHECKED"), ("1e-60", "NOT CHECKED")])
def test_what_floats_have_no_numbers_for(tmp_path, alpha, verdict):
    a, b = random((40, 30), seed=1), random((30, 20), seed=2)
    write(tmp_path / "in.h5", A=a, B=b)
    done = run("dgemm_ooc", tmp_path / "in.h5", "--alpha", alpha, "--type-c", "s")
    assert verdict in done.stdout, done.stdout
