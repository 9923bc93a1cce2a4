"""Operands of float16 and bfloat16 stay 16 bits up to the device and are multiplied as the floats that they are: C has the
bits of the product of these floats."""
import h5py
import numpy as np
import pytest

from launch import run
from matrices import multiply, output_of, random, read, write
from test_bad_input import assert_refused
from test_layouts import (chunked, compact, contiguous, external_storage, filtered, row_chunks,
                          virtual)
from test_restart import finish, stop

M, N, K = 61, 47, 130
LIMITS = ["--gpu-memory", "40K", "--host-memory", "64M"]


def big_endian(file, name, matrix):
    file.create_dataset(name, data=matrix.astype(">f2"))


def chunked_big_endian(file, name, matrix):
    file.create_dataset(name, data=matrix.astype(">f2"), chunks=(16, 7), compression="gzip")


def bfloat16_type():
    """As HDF5 2.0 writes it."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def write_bits(file, name, bits, kind, layout):
    """A dataset of 16-bit elements of an HDF5 type that NumPy does not have."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if layout in (chunked, filtered):
        plist.set_chunk((16, 7))
    if layout is filtered:
        plist.set_shuffle()
        plist.set_deflate(4)
    data = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple(bits.shape), plist)
    data.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(bits), mtype=kind)


def store(file, name, kind, numbers, layout=contiguous):
    """Store numbers, cut to a kind; return the floats that they are then."""
    if kind == "bfloat16":
        bits = (np.ascontiguousarray(numbers, "f4").view("u4") >> 16).astype("u2")
        write_bits(file, name, bits, bfloat16_type(), layout)
        return (bits.astype("u4") << 16).view("f4")
    numbers = numbers.astype("f2" if kind == "float16" else "f4")
    (layout if kind == "float16" else contiguous)(file, name, numbers)
    return numbers.astype("f4")


def pair(folder, shapes, kinds, layout=contiguous):
    """A file of such operands, and one of the same floats."""
    halves, floats = folder / "input.h5", folder / "floats.h5"
    with h5py.File(halves, "w") as file, h5py.File(floats, "w") as other:
        for seed, (name, kind) in enumerate(kinds.items()):
            other[name] = store(file, name, kind, random(shapes[name], "f4", seed), layout)
    return halves, floats


def assert_same(halves, floats, *options, **how):
    """Both give the same bits; returns the reports."""
    reports = [multiply(source, *options, **how) for source in (halves, floats)]
    c, expected = (read(output_of(source)) for source in (halves, floats))
    assert c.dtype == expected.dtype and c.tobytes() == expected.tobytes()
    return reports


SHAPES = {"A": (M, K), "B": (K, N), "C": (M, N)}


def name(x):
    return getattr(x, "__name__", str(x))


@pytest.mark.singly
@pytest.mark.parametrize("kinds, layout, trans, options, ranks", [
    ("float16 float16", contiguous, "NN", [], 0), ("bfloat16 bfloat16", filtered, "TN", [], 3),
    ("float16 bfloat16", chunked, "TT", ["--beta", 2], 0), ("float float16", filtered, "NT", ["--alpha", 3], 3),
    ("bfloat16 float", contiguous, "TN", ["--verify", "full"], 3),
    ("float16 float16", big_endian, "TT", ["--verify", "full"], 0),
    ("float16 float16", chunked_big_endian, "NN", ["--beta=-1"], 0),
    ("float16 bfloat16", contiguous, "NT", ["--io", "direct"], 0),
    ("bfloat16 float16", contiguous, "TN", ["--io", "hdf5", "--beta", 1], 0),
    ("float16 float16", virtual, "NN", [], 0), ("float16 float16", compact, "NT", [], 0),
    ("float16 float16", external_storage, "TT", [], 0), ("float16 float16", row_chunks, "TN", ["--type", "s"], 0),
    ("bfloat16 bfloat16", contiguous, "TT", ["--gpu-memory", "1M"], 2)], ids=name)
def test_any_two(tmp_path, device, kinds, layout, trans, options, ranks):
    a, b = kinds.split()
    shapes = {"A": (K, M) if trans[0] == "T" else (M, K), "B": (N, K) if trans[1] == "T" else (K, N), "C": (M, N)}
    files = pair(tmp_path, shapes, {"A": a, "B": b, "C": b}, layout)
    assert_same(*files, "--transa", trans[0], "--transb", trans[1], *LIMITS, *options, ranks=ranks, device=device)


@pytest.mark.singly
@pytest.mark.parametrize("kind, layout, options, ranks", [
    ("float16", contiguous, ["--product", "gram"], 0), ("bfloat16", filtered, ["--product", "gram", "--transa", "T"], 3),
    ("float16", filtered, ["--product", "cov"], 3), ("bfloat16", contiguous, ["--product", "cov", "--transa", "T"], 0),
    ("float16", contiguous, ["--product", "cor", "--verify", "full"], 3),
    ("float16", contiguous, ["--product", "gram", "--symmetric", "lower", "--center", "cols"], 0),
    ("bfloat16", chunked, ["--product", "cor", "--transa", "T", "--verify", "full"], 0)], ids=name)
def test_a_matrix_times_its_transpose(tmp_path, device, kind, layout, options, ranks):
    assert_same(*pair(tmp_path, SHAPES, {"A": kind}, layout), *options, *LIMITS, ranks=ranks, device=device)


@pytest.mark.parametrize("options", [[], ["--product", "gram"]], ids=str)
def test_products_in_residues(tmp_path, device, options):
    files = pair(tmp_path, SHAPES, {"A": "float16", "B": "bfloat16"})
    assert_same(*files, "--algo", "ozaki", *options, "--gpu-memory", "16M", device=device)


@pytest.mark.parametrize("options", [[], ["--product", "gram"], ["--transa", "C", "-b", "A"], ["--type", "z"]], ids=str)
def test_complex_numbers(tmp_path, device, options):
    parts = random((40, 33, 2), "f2")
    files = [write(tmp_path / f"{kind}.h5", A=parts.astype(kind).view([("r", kind), ("i", kind)])[..., 0],
                   B=random((33, 20), "f2").astype(kind)) for kind in ("f2", "f4")]
    assert_same(*files, *options, "--gpu-memory", "64K", "--verify", "full", device=device)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_every_number(tmp_path, device, kind):
    """Subnormal numbers, infinite ones and NaN, too."""
    bits = np.arange(1 << 16, dtype="u2").reshape(-1, 1)
    numbers = bits.view("f2").astype("f4") if kind == "float16" else (bits.astype("u4") << 16).view("f4")
    source = write(tmp_path / "input.h5", B=np.ones((1, 1), "f4"))
    with h5py.File(source, "a") as file:
        write_bits(file, "A", bits, h5py.h5t.IEEE_F16LE if kind == "float16" else bfloat16_type(), contiguous)
    multiply(source, device=device)
    np.testing.assert_array_equal(read(output_of(source)), numbers)


def test_half_the_bytes_are_read_and_copied(tmp_path):
    halves, floats = assert_same(*pair(tmp_path, SHAPES, {"A": "float16", "B": "bfloat16"}), "--tile", f"{M}x{N}x{K}")
    for what in "read_bytes", "in_bytes":
        assert floats["plan"][what] == 2 * halves["plan"][what] == 4 * (M * K + K * N)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_doubles_when_asked_for(tmp_path, kind):
    files = pair(tmp_path, SHAPES, {"A": kind, "B": kind})
    assert_same(*files, "--type", "d")
    assert read(output_of(files[0])).dtype == "f8"


@pytest.mark.parametrize("layout", [chunked, filtered])
def test_chunks_that_were_never_written(tmp_path, layout):
    """They are the fill value; these are all that there is."""
    files = [tmp_path / "input.h5", tmp_path / "floats.h5"]
    for path, kind in zip(files, ("f2", "f4")):
        with h5py.File(path, "w") as file:
            for name, fill in ("A", -0.3335), ("B", 6e-8):
                file.create_dataset(name, SHAPES[name], kind, chunks=(16, 7), fillvalue=np.float16(fill))[:20] = 1
    assert_same(*files)


def test_resumed(tmp_path):
    files = pair(tmp_path, {"A": (500, 450), "B": (500, 400), "C": (450, 400)},
                 {"A": "float16", "B": "bfloat16", "C": "float16"})
    assert stop(files[0])[0] == 75
    for source in files:
        finish(source)
    c, expected = (read(output_of(source)) for source in files)
    assert c.dtype == "f4" and c.tobytes() == expected.tobytes()


def test_checked_later(tmp_path):
    source, _ = pair(tmp_path, SHAPES, {"A": "float16", "B": "bfloat16"})
    multiply(source)
    done = run("dgemm_ooc", source, "--check-only")
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stderr
    with h5py.File(output_of(source), "a") as file:
        c = file["C"][()]
        del file["C"]
        file["C"] = c.astype("f2")
    done = run("dgemm_ooc", source, "--check-only")
    assert done.returncode == 3 and "does not hold floats, doubles or int64" in done.stderr, done.stderr


def test_other_types_beside_them(tmp_path):
    source, _ = pair(tmp_path, SHAPES, {"A": "float16"})
    write(source, B=random((K, N), "f8"))
    assert_refused(tmp_path, source, says=["B is double but A is float16; give --type d"])


def test_they_have_names(tmp_path):
    source, floats = pair(tmp_path, SHAPES, {"A": "float16", "B": "bfloat16"})
    listed = run("h5mat", "info", source).stdout
    assert f"{M} x {K} float16" in listed and "contiguous f16, at offset" in listed
    assert f"{K} x {N} bfloat16" in listed and "contiguous bf16, at offset" in listed
    for name in "AB":
        assert "equal" in run("h5mat", "diff", f"{source}:{name}", f"{floats}:{name}").stdout
