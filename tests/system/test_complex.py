"""Complex matrices: in every spelling, all transpositions, with the bits of one running sum for each part whatever the
ranks, tiles and devices; and what is not done with them.

DGEMM_OOC_TEST_SEEDS=N tests N random configurations instead of a few."""
import itertools
import json
import os
import random as chance
import re
import shutil

import h5py
import numpy as np
import pytest

from launch import FAULTY, WAYS, run
from matrices import multiply, output_of, read, write
from test_restart import stop

SEEDS = int(os.environ.get("DGEMM_OOC_TEST_SEEDS", "4"))
USAGE, INPUT, VERIFY = 2, 3, 5
SPELLINGS = [("r", "i"), ("real", "imag"), ("Real", "Imaginary"), ("re", "im"), ("x", "y")]
PARTS = {"c16": "f8", "c8": "f4"}
M, N, K = 93, 71, 300


def whole(shape, dtype, seed):
    rng = np.random.default_rng([seed, *shape])
    a, b = rng.integers(-8, 9, (2, *shape))
    return (a if dtype[0] == "f" else a + 1j * b).astype(dtype)


def fractions(shape, dtype, seed):
    rng = np.random.default_rng([seed, *shape])
    a, b = rng.uniform(-1, 1, (2, *shape))
    return (a if dtype[0] == "f" else a + 1j * b).astype(dtype)


def spelled(matrix, names):
    """A complex matrix as a compound with these names."""
    kind = np.dtype([(name, matrix.real.dtype) for name in names])
    return np.ascontiguousarray(matrix).view(kind)


def turned(matrix, how):
    return {"N": matrix, "T": matrix.T, "C": matrix.conj().T}[how]


def operands(path, dtypes=("c16", "c16", "c16"), trans="NN", kind=fractions, shape=(M, N, K)):
    """Write op(A), op(B), C0 as they are stored for the transpositions; return what they stand for."""
    m, n, k = shape
    a, b, c = kind((m, k), dtypes[0], 1), kind((k, n), dtypes[1], 2), kind((m, n), dtypes[2], 3)
    write(path, A=turned(a, trans[0]), B=turned(b, trans[1]), C=c)
    return a, b, c


def number(text):
    return complex(text.replace("i", "j"))


def options(trans="NN", alpha="1", beta="0"):
    return ["--transa", trans[0], "--transb", trans[1], f"--alpha={alpha}", f"--beta={beta}"]


def parts(x):
    """|re| + |im|"""
    return np.abs(x.real) + np.abs(x.imag)


@pytest.fixture
def source(tmp_path):
    return tmp_path / "input.h5"


@pytest.mark.parametrize("trans", ["".join(pair) for pair in itertools.product("NTC", repeat=2)])
def test_whole_numbers_are_exact(source, trans):
    for dtype in PARTS:
        source.unlink(missing_ok=True)
        a, b, c = operands(source, (dtype,) * 3, trans, whole, (23, 17, 41))
        for alpha, beta in ("1", "0"), ("1.5-2i", "0"), ("i", "3"), ("-2", "-i"), ("0.5+0.25i", "-1-4i"), ("0", "2i"):
            report = multiply(source, *options(trans, alpha, beta), "--verify", "full", "-f")
            got = read(output_of(source))
            assert got.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(got, number(alpha) * (a @ b) + number(beta) * c)
    problem = report["problem"]
    assert problem["complex"] and (problem["m"], problem["n"], problem["k"]) == (23, 17, 41)
    assert (problem["conjugate_a"], problem["conjugate_b"]) == (trans[0] == "C", trans[1] == "C")
    assert report["matrices"]["C"]["cols"] == 17


@pytest.mark.parametrize("dtype", PARTS)
def test_the_error_of_each_part_is_within_the_bound_of_its_sum(source, dtype):
    alpha, beta = "1.3-0.7i", "0.2+i"
    a, b, c = operands(source, (dtype,) * 3)
    multiply(source, *options("NN", alpha, beta))
    exact = a.astype("clongdouble") @ b.astype("clongdouble") * number(alpha) + number(beta) * c.astype("clongdouble")
    size = parts(np.complex128(number(alpha))) * (parts(a) @ parts(b)) + parts(np.complex128(number(beta))) * parts(c)
    off = read(output_of(source)) - exact
    limit = (2 * K + 4) * np.finfo(dtype).eps / 2 * size.astype("f8")
    assert (np.abs(off.real) <= limit).all() and (np.abs(off.imag) <= limit).all()


def running_sums(a, b):
    """Each part as the sum of fused steps in the documented order, by a float that holds products of float32."""
    re, im = np.zeros((2, len(a), b.shape[1]), "f4")
    for h in range(a.shape[1]):
        ar, ai = (x[:, h, None].astype("longdouble") for x in (a.real, a.imag))
        br, bi = (x[None, h].astype("longdouble") for x in (b.real, b.imag))
        re = (ai * -bi + (ar * br + re).astype("f4")).astype("f4")
        im = (ai * br + (ar * bi + im).astype("f4")).astype("f4")
    return re + 1j * im


def test_the_order_of_the_sums_is_the_documented_one(source):
    """(Long doubles hold the products of floats, and their sums with floats but for rare double roundings.)"""
    a, b, _ = operands(source, ("c8",) * 3)
    multiply(source)
    got = read(output_of(source))
    assert np.mean(got == running_sums(a, b)) > 0.999


@pytest.mark.singly
@pytest.mark.parametrize("names", SPELLINGS, ids="/".join)
@pytest.mark.parametrize("way", ["by offset", "chunks", "big-endian", "virtual", "user block"])
def test_spellings(source, names, way):
    """C is spelled as A is, and read back by h5py.  MATLAB's files begin with a user block."""
    a, b = whole((12, 30), "c16", 1), whole((30, 9), "c8", 2)
    if way == "big-endian":
        a = a.astype(">c16")
    stored = spelled(a, names)
    with h5py.File(source, "w", userblock_size=512 if way == "user block" else 0) as file:
        if way == "chunks":
            file.create_dataset("A", data=stored, chunks=(5, 7), compression=4, shuffle=True)
        elif way == "virtual":
            file["half"] = stored
            layout = h5py.VirtualLayout((12, 30), stored.dtype)
            layout[:] = h5py.VirtualSource(file["half"])
            file.create_virtual_dataset("A", layout)
        else:
            file["A"] = stored
        file["B"] = spelled(b, ("r", "i"))
    multiply(source, "--type", "z")
    with h5py.File(output_of(source)) as file:
        kind, c = file["C"].id.get_type(), file["C"][()]
    assert tuple(kind.get_member_name(i).decode() for i in range(2)) == names
    np.testing.assert_array_equal(c.view("c16"), a @ b)
    said = run("h5mat", "info", f"{source}:/A").stdout
    assert f"A: 12 x 30 complex double, {12 * 30 * 16} bytes" in said and f"complex {'/'.join(names)} f64" in said


@pytest.mark.singly
@pytest.mark.parametrize("types, asked, want", [
    (("f8", "c16"), [], "c16"), (("c16", "f8"), [], "c16"), (("f4", "c8"), [], "c8"), (("c8", "f4"), [], "c8"),
    (("f8", "f8"), ["--type", "z"], "c16"), (("i4", "c8"), ["--type", "z"], "c16"),
    (("c16", "i2"), ["--type", "c"], "c8"), (("c8", "f8"), ["--type", "z"], "c16")], ids=str)
@pytest.mark.parametrize("trans", ["NN", "TC", "CT"])
def test_mixed_operands(source, types, asked, want, trans):
    a, b = whole((20, 33), "c16", 1), whole((33, 14), "c16", 2)
    a, b = (x.real if types[i][0] != "c" else x for i, x in enumerate((a, b)))
    write(source, A=turned(a, trans[0]).astype(types[0]), B=turned(b, trans[1]).astype(types[1]))
    multiply(source, *options(trans, "1-i"), *asked, "--verify", "full")
    got = read(output_of(source))
    assert got.dtype == np.dtype(want)
    np.testing.assert_array_equal(got, (1 - 1j) * (a @ b))


def test_the_conjugate_transpose_of_a_real_matrix_is_its_transpose(source):
    a, b, _ = operands(source, ("f8",) * 3, "TT", whole)
    multiply(source, *options("CC"))
    got = read(output_of(source))
    assert got.dtype == np.dtype("f8")
    np.testing.assert_array_equal(got, a @ b)


def test_fill_values_of_chunks_that_were_never_written(source):
    with h5py.File(source, "w") as file:
        for name, fill in ("A", 2 - 3j), ("B", 0j):
            file.create_dataset(name, (16, 16), "c16", chunks=(4, 4), fillvalue=fill)
        file["A"][:4], file["B"][8:] = 1j, 1 + 1j
        a, b = file["A"][()], file["B"][()]
    multiply(source)
    np.testing.assert_array_equal(read(output_of(source)), a @ b)


REFUSED = {
    "type d": (("c16", "c16", "c16"), ["--type", "d"], INPUT, "is complex; give --type z (or c)"),
    "precisions": (("c16", "c8", "c16"), [], INPUT, "give --type z (or c)"),
    "real C": (("c16", "c16", "f8"), ["--beta", "1"], INPUT, "C is real, but the product to be added is complex"),
    "complex alpha": (("f8", "f8", "f8"), ["--alpha", "2i"], USAGE, "the matrices are not; give --type z"),
    "symmetric": (("c16", "c16", "c16"), ["--symmetric", "on"], INPUT, "--symmetric on: op(B) is not the transpose"),
    "centred": (("c16", "c16", "c16"), ["--product", "cov"], INPUT, "are for real matrices"),
    "alpha": (("c16", "c16", "c16"), ["--alpha", "1+2"], USAGE, "give a finite number, or a complex one such as"),
    "alpha, too": (("c16", "c16", "c16"), ["--alpha", "i1"], USAGE, "give a finite number, or a complex one such as"),
    "large alpha": (("c8", "c8", "c8"), ["--alpha", "1e99i"], USAGE, "is out of the range of float"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(source, what):
    types, asked, code, why = REFUSED[what]
    operands(source, types, shape=(20, 20, 20))
    done = run("dgemm_ooc", source, *asked)
    assert done.returncode == code and why in done.stderr, done.stderr
    assert {path.name for path in source.parent.iterdir()} == {"input.h5"}


@pytest.mark.parametrize("kind", [[("i", "f8"), ("r", "f8")], [("r", "f8"), ("i", "f4")], [("a", "f8"), ("b", "f8")],
                                  [("r", "i8"), ("i", "i4")], [("r", "i4"), ("i", "f4")], [("r", "S4"), ("i", "S4")],
                                  [("a", "i4"), ("b", "i4")]], ids=str)
def test_other_compounds_are_refused(source, kind):
    write(source, A=np.zeros((4, 4), kind), B=np.zeros((4, 4), "c16"))
    done = run("dgemm_ooc", source)
    assert done.returncode == INPUT and "no complex numbers; store these as compounds of two floats" in done.stderr


@pytest.mark.singly
@pytest.mark.parametrize("part", ["i1", "u1", "i2", ">i2", "i4", "u4", "i8"])
@pytest.mark.parametrize("way", [{}, {"chunks": (5, 7), "compression": 4, "fillvalue": None}], ids=["contiguous", "chunks"])
@pytest.mark.parametrize("asked, want", [("z", "c16"), ("c", "c8")])
def test_complex_integers(source, part, way, asked, want):
    """They were refused, whatever --type said."""
    a, b = np.abs(whole((12, 30), "f8", 1)), np.abs(whole((12, 30), "f8", 2))
    stored = np.zeros(a.shape, [("r", part), ("i", part)])
    stored["r"], stored["i"] = a, b
    other = whole((30, 9), "c16", 3)
    with h5py.File(source, "w") as file:
        file.create_dataset("A", data=stored, **way)
        file["B"] = other
        file["C"] = stored[:, :9]
    multiply(source, "--type", asked, "--beta", "2", "--verify", "full")
    got = read(output_of(source))
    assert got.dtype == np.dtype(want)
    np.testing.assert_array_equal(got, (a + 1j * b) @ other + 2 * (a + 1j * b)[:, :9])
    said = run("h5mat", "info", f"{source}:/A").stdout
    assert "A: 12 x 30 complex integer" in said and "by HDF5 (converted), with --type z or c" in said
    assert run("h5mat", "diff", f"{source}:/A", f"{source}:/A").returncode == 0
    done = run("dgemm_ooc", source, "--force")
    assert done.returncode == INPUT and re.search(r"A holds u?int\d+ elements; give --type z \(or c\)", done.stderr)


def test_the_complex_type_of_a_newer_library(source):
    """Its datatype message has version 5 and class 11."""
    write(source, A=np.zeros((4, 4)), B=np.zeros((4, 4)))
    content = source.read_bytes()
    at = content.rindex(b"\x11\x20\x3f\x00\x08\x00\x00\x00")
    source.write_bytes(content[:at] + b"\x5b" + content[at + 1:])
    done = run("dgemm_ooc", source)
    said = "a type of a newer HDF5 (complex numbers: 2.0)"
    assert done.returncode == INPUT and (said in done.stderr or "2." in run("dgemm_ooc", "-V").stdout), done.stderr


# The same bits.


@pytest.fixture(scope="module", params=PARTS)
def problem(request, tmp_path_factory):
    """A file of operands, and the bits of one product of each pair of transpositions on one rank."""
    folder = tmp_path_factory.mktemp("complex")
    sources = {}
    for trans in "NN", "TC", "CT", "NC":
        source = folder / f"{trans}.h5"
        operands(source, (request.param,) * 3, trans)
        sources[trans] = source, result(source, trans)
    return sources


def result(source, trans, *more, **how):
    output = source.with_name("result.h5")
    multiply(source, *options(trans, "1.7-0.4i", "-0.3+2i"), *more, "-o", output, "--force", **how)
    return read(output).tobytes()


VARIANTS = {
    "2 ranks": dict(ranks=2),
    "3 ranks": dict(ranks=3),
    "5 ranks": dict(ranks=5),
    "little memory": dict(options=["--gpu-memory", "60K", "--host-memory", "16M"]),
    "3 ranks, little memory": dict(ranks=3, options=["--gpu-memory", "90K", "--host-memory", "16M"]),
    "one quantum": dict(options=["--tile", f"{M}x{N}x8"]),
    "ragged tile": dict(options=["--tile", "37x21x104"]),
    "thin tile": dict(options=["--tile", f"{M}x8x{K}"]),
    "flat tile": dict(options=["--tile", f"1x{N}x{K}"]),
    "grid": dict(ranks=3, options=["--grid", "1x3"]),
    "2 threads": dict(OMP_NUM_THREADS="2"),
    **{f"io {way}": dict(options=["--io", way, "--gpu-memory", "100K"]) for way in WAYS},
}


@pytest.mark.singly
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("trans", ["NN", "TC", "CT", "NC"])
def test_the_same_bits(problem, variant, trans):
    source, reference = problem[trans]
    how = dict(VARIANTS[variant])
    assert result(source, trans, *how.pop("options", []), **how) == reference


@pytest.mark.singly
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_bits_in_random_configurations(problem, seed, tmp_path):
    rng = chance.Random(seed)
    trans = rng.choice(list(problem))
    source, reference = problem[trans]
    chunked = tmp_path / "chunked.h5"
    with h5py.File(source) as old, h5py.File(chunked, "w") as new:
        for name in "ABC":
            how = dict(chunks=(rng.randint(1, 70), rng.randint(1, 70)), compression="gzip",
                       shuffle=rng.random() < 0.5) if rng.random() < 0.5 else {}
            new.create_dataset(name, data=old[name], **how)
    more = ["--gpu-memory", f"{rng.randint(60, 900)}K", "--host-memory", f"{rng.randint(64, 200)}M"]
    if rng.random() < 0.4:
        more = ["--tile", f"{rng.randint(9, M)}x{rng.randint(7, N)}x{rng.randint(40, K)}"]
    more += ["--io", rng.choice(WAYS[:3]), "--verify", rng.choice(["online", "full"])]
    ranks = rng.randint(0, 4)
    assert result(chunked, trans, *more, ranks=ranks) == reference, (more, ranks)


@pytest.mark.singly
@pytest.mark.gpu
@pytest.mark.parametrize("trans", ["NN", "TC", "CT", "NC"])
@pytest.mark.parametrize("more, ranks", [([], 0), (["--gpu-memory", "300K"], 0), (["--tile", "31x40x64"], 2)])
def test_a_gpu_gives_the_bits_of_the_cpu(problem, gpu, trans, more, ranks):
    source, reference = problem[trans]
    assert result(source, trans, *more, ranks=ranks, device=gpu) == reference


@pytest.mark.parametrize("ranks, later", [(0, 2), (2, 0)])
def test_a_run_that_was_stopped_goes_on(tmp_path, ranks, later):
    """(stop and its options are test_restart's: op(A) is the transpose.)"""
    source, plain = tmp_path / "input.h5", tmp_path / "plain.h5"
    operands(source, trans="TN", shape=(400, 300, 500))
    shutil.copy2(source, plain)
    code, _, err = stop(source, ranks=ranks, after=0.2, tile=["--tile", "40x20x8"])
    assert code == 75, err
    again = options("TN", "1.5", "-2")
    said = run("dgemm_ooc", source, *again, "--tile", "70x33x80", ranks=later)
    assert said.returncode == 0 and "% is done" in said.stdout, said.stderr
    multiply(plain, *again)
    assert read(output_of(source)).tobytes() == read(output_of(plain)).tobytes()
    done = run("dgemm_ooc", "--check-only", source)
    assert done.returncode == 0 and "checksum equal" in done.stdout, done.stderr


# Checks.


def test_check_only(source):
    a, b, c = operands(source, trans="CT")
    made = options("CT", "0.6-i", "2i")
    multiply(source, *made)
    assert run("dgemm_ooc", "--check-only", source).returncode == 0
    assert run("dgemm_ooc", "--check-only", source, *made).returncode == 0
    for wrong in ["--transa", "T"], ["--alpha=0.6"], ["--alpha=0.6+i"], ["--beta=2"], ["--type", "d"]:
        done = run("dgemm_ooc", "--check-only", source, *wrong)
        assert done.returncode == INPUT and "C " in done.stderr, (wrong, done.stderr)
    for part in "real", "imag":
        with h5py.File(output_of(source), "r+") as file:
            kept = file["C"][40, 30]
            file["C"][40, 30] = kept + (1e-6 if part == "real" else 1e-6j)
        done = run("dgemm_ooc", "--check-only", source)
        assert done.returncode == VERIFY and "row 40 of C" in done.stderr, done.stderr
        with h5py.File(output_of(source), "r+") as file:
            file["C"][40, 30] = kept


def test_a_flipped_bit_is_found_in_either_part(source):
    operands(source)
    report, log = source.with_name("report.json"), source.with_name("log")
    found = {0: 0, 1: 0}
    for seed in range(1, 60):
        log.unlink(missing_ok=True)
        done = run(FAULTY, source, "-f", "--report", report, DGEMM_OOC_TEST_FAULTS="gemm:bit@2",
                   DGEMM_OOC_TEST_SEED=str(seed), DGEMM_OOC_TEST_FAULT_LOG=str(log))
        bit, col = map(int, re.search(r"bit (\d+) of element \((\d+), ", log.read_text()).groups())
        if bit < 40:
            continue
        assert done.returncode == VERIFY or "again" in done.stderr, (seed, done.stderr)
        found[col % 2] += 1
        if min(found.values()) >= 3:
            return
    raise AssertionError(found)


# h5mat, and what a run says.


def test_h5mat(tmp_path):
    file = tmp_path / "made.h5"
    for kind, dtype in ("z", "c16"), ("c", "c8"):
        for pattern in "random", "integer", "ones", "identity":
            done = run("h5mat", "gen", f"{file}:/{pattern}", "--rows", 9, "--cols", 7, "--type", kind, "--pattern",
                       pattern, "--force")
            assert done.returncode == 0 and "9 x 7 complex " in done.stdout, done.stderr
        made = {name: read(file, name) for name in ("random", "integer", "ones", "identity")}
        assert all(x.dtype == np.dtype(dtype) and x.shape == (9, 7) for x in made.values())
        np.testing.assert_array_equal(made["ones"], np.ones((9, 7)))
        np.testing.assert_array_equal(made["identity"], np.eye(9, 7))
        assert np.abs(made["random"].imag).min() > 0 and len(np.unique(made["random"])) == 63
    with h5py.File(file, "r+") as f:
        f["other"] = made["random"]
        f["other"][4, 5] += 3 - 4j
        f["real"] = made["random"].real
    done = run("h5mat", "diff", f"{file}:/random", f"{file}:/other")
    assert done.returncode == VERIFY and "max abs difference  5 at row 4, column 5: " in done.stdout
    assert "over the tolerance  1 of 63 elements" in done.stdout
    done = run("h5mat", "diff", f"{file}:/random", f"{file}:/real")
    assert done.returncode == INPUT and "is complex but" in done.stderr
    done = run("h5mat", "gen", f"{file}:/g", "--rows", 9, "--cols", 7, "--type", "z", "--pattern", "genotype")
    assert done.returncode == USAGE


def test_the_plan_counts_what_the_files_have(source, tmp_path):
    operands(source, trans="NN", shape=(256, 256, 256))
    plan = tmp_path / "plan.json"
    done = run("dgemm_ooc", source, *options("NN", "1-2i", "i"), "--dry-run", "--report", plan)
    assert "C = (1-2i) A B + (0+1i) C\n            complex double; C 256x256, k 256\n" in done.stdout, done.stdout
    planned = json.loads(plan.read_text())["plan"]
    assert planned["read_bytes"] == 3 * 256 * 256 * 16 and planned["tile"][1] == 256
    report = multiply(source, *options("NN", "1-2i", "i"))
    assert report["stages"]["read"]["bytes"] == planned["read_bytes"]
    assert report["stages"]["in"]["bytes"] == report["plan"]["in_bytes"] == 3 * 256 * 256 * 16
    assert report["stages"]["gemm"]["flops"] == 8 * 256 ** 3
