"""Slices of datasets as operands: the products are those of the copied slices, whatever the layout, and mistakes are
refused in a sentence."""
import json
import signal

import h5py
import numpy as np
import pytest

from cases import each
from launch import PATIENCE, WAYS, run
from matrices import random, start_late, wait_until, whole

INPUT, STOPPED = 3, 75
LAYOUTS = {"contiguous": {}, "chunked": {"chunks": (7, 9)}, "gzip": {"chunks": (11, 6), "compression": "gzip", "shuffle": True},
           "other": {"chunks": (8, 8), "scaleoffset": 3}}  # by a filter that HDF5 alone has
TYPES = ["f8", ">f8", "f4", "f2", "c16", "c8", "i1", ">i2", "u4"]


def small(shape, dtype, seed=0):
    """Whole numbers, also complex ones, whose products are exact."""
    made = whole(shape, "f8", seed) + (1j * whole(shape, "f8", seed + 9) if np.dtype(dtype).kind == "c" else 0)
    return np.abs(made).astype(dtype) if np.dtype(dtype).kind == "u" else made.astype(dtype)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("slices") / "in.h5"
    with h5py.File(path, "w") as file:
        for name, layout in LAYOUTS.items():
            file.create_dataset(name, data=small((60, 50), "f8"), **layout)
            if name != "other":
                file.create_dataset(f"{name}_z", data=small((60, 50), "c16"), **layout)
        for dtype in TYPES:
            file[f"of/{dtype}"] = small((60, 50), dtype)
            file.create_dataset(f"in_chunks/{dtype}", data=small((60, 50), dtype), chunks=(13, 8))
        file["stack"] = small((4, 30, 20), "f8")
        file.create_dataset("stack_gzip", data=small((4, 30, 20), "f8"), chunks=(2, 8, 7), compression="gzip")
        file["hyper"] = small((2, 3, 12, 10), "f4")
        file["vector"] = small((70,), "f8")
        file["name[0:5]"] = small((9, 8), "f8")
        file["name"] = small((20, 30), "f8")
        file["g/A"] = small((20, 30), "f8")
        file["soft"] = h5py.SoftLink("/g/A")
        file["never"] = h5py.Empty("f8")
        file.create_dataset("filled", (30, 40), "f8", chunks=(8, 8), fillvalue=3)[5:9, 10:20] = 7
        file.create_dataset("unwritten", (30, 40), "f8", fillvalue=2)
        layout = h5py.VirtualLayout((20, 60), "f8")
        layout[:, :30] = layout[:, 30:] = h5py.VirtualSource(file["g/A"])
        file.create_virtual_dataset("virtual", layout)
    with h5py.File(path.with_name("links.h5"), "w") as file:
        file["far"] = h5py.ExternalLink("in.h5", "/contiguous")
        file["far_gzip"] = h5py.ExternalLink("in.h5", "/gzip")
    return path


def taken(path, name):
    """What NumPy takes of a dataset, as a slice names it."""
    at = name.rindex("[")
    with h5py.File(path, "r") as file:
        return eval(f"array{name[at:]}", {"array": file[name[:at]][()]})  # pylint: disable=eval-used


def multiplied(tmp_path, a, *words, check=(), **how):
    """C of an operand and of words that name the other one, and all else."""
    output = tmp_path / "C.h5"
    done = run("dgemm_ooc", "-a", a, "-o", output, "--force", *words, *check, **how)
    assert done.returncode == 0, (a, words, done.stderr)
    with h5py.File(output, "r") as file:
        return file["C"][()]


def assert_reads(tmp_path, path, name, *words):
    """A slice is the operand that NumPy's copy is."""
    a = taken(path, name)
    wide = "f4" if a.dtype.itemsize == 2 and a.dtype.kind == "f" else a.dtype.newbyteorder("=")
    b = small((a.shape[1], 5), wide)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["B"] = b
    c = multiplied(tmp_path, f"{path}:/{name}", "-b", f"{tmp_path}/b.h5:/B", *words)
    exact = a.astype("c16" if a.dtype.kind == "c" else "f8") @ b
    assert np.array_equal(c, exact), name


SLICES = ["[0:50, ::2]", "[10:]", "[:, 5:9]", "[:, ::3]", "[7:8]", "[:, 49:]", "[::4]", "[3:44:5, 6:41]", "[1:999, 2:999]",
          "[ 12 : 13 , : ]", "[:,:]", "[2::3, 1::2]", "[59:60, 49:50]", "[::59, :]", "[6:14, 8:10]"]


@each("layout", LAYOUTS)
def test_every_layout(tmp_path, source, layout):
    for part in SLICES:
        assert_reads(tmp_path, source, layout + part)
    for part in SLICES[:4] if layout != "other" else []:
        assert_reads(tmp_path, source, f"{layout}_z{part}")


@each("dtype", TYPES)
def test_every_type(tmp_path, source, dtype):
    for name in [f"of/{dtype}[5:40, 3:33]", f"of/{dtype}[::3, ::2]", f"in_chunks/{dtype}[5:40, 3:33]"]:
        assert_reads(tmp_path, source, name, *(["--type", "d"] if dtype == ">i2" else []))


@each("name", ["stack[3]", "stack[3, 0:10, :]", "stack[:, 2, :]", "stack[:, :, 19]", "stack[1:3, ::7, 4]", "stack[0]",
               "stack_gzip[2]", "stack_gzip[:, 5]", "stack_gzip[::2, 3::9, 6]", "hyper[1, 2]", "hyper[:, 0, :, 9]",
               "hyper[1, :, 3:4, 5]", "hyper[0, 1, 2:9:2, 1:4]", "vector[:, None]", "vector[None]", "vector[None, 5:60:5]",
               "vector[3::4, None]", "contiguous[5, None]", "gzip[None, :, 3]", "soft[3:9]", "virtual[2:, 20:40]",
               "virtual[::2, ::5]", "filled[2:20, 5:30]", "filled[::3, ::4]", "unwritten[4:, 8:]", "unwritten[::2, ::2]"])
def test_stacks_vectors_and_others(tmp_path, source, name):
    assert_reads(tmp_path, source, name)


@each("name", ["far[10:40, 4:]", "far[::2, ::2]", "far_gzip[10:40, 4:]", "far[40:, 1:3]"])
def test_links_to_other_files(tmp_path, source, name):
    assert_reads(tmp_path, source.with_name("links.h5"), name)


def test_names_with_brackets(tmp_path, source):
    """What is there by this name is that; a slice of it has brackets behind."""
    with h5py.File(source, "r") as file:
        literal, other = file["name[0:5]"][()], file["name"][()]
    for name, expected in [("name[0:5]", literal), ("name[0:5][2:6]", literal[2:6]), ("name[0:6]", other[:6])]:
        c = multiplied(tmp_path, f"{source}:/{name}", "-b", f"{source}:/{name}", "--transb", "T")
        assert np.array_equal(c, expected @ expected.T)


PARTS = ["A[30:250, 10:310]", "A[::2, 5:]", "A[:, ::3]", "chunks[30:250, 10:310]", "chunks[1:, 1::2]", "cube[1]"]
OF_HDF5 = ["A[:, ::3]", "chunks[1:, 1::2]"]


@pytest.mark.singly
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("trans", "NT")
def test_bits_of_the_copy(tmp_path, part, way, ranks, trans):
    """Out of core, by ranks and threads, in every way to read: the bits are those of the copied slice."""
    a = random((300, 320), seed=1)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["A"] = a
        file.create_dataset("chunks", data=a, chunks=(33, 41), compression="gzip")
        file["cube"] = random((3, 90, 110), seed=2)
    copied = taken(tmp_path / "in.h5", part)
    with h5py.File(tmp_path / "copy.h5", "w") as file:
        file["A"] = copied
        file["B"] = random((copied.shape[trans == "N"], 130), seed=3)
    if way in {"buffered", "direct"} and part in OF_HDF5 or way == "direct" and part.startswith("chunks"):
        way = "hdf5"
    words = ["-b", f"{tmp_path}/copy.h5:/B", "--transa", trans]
    c = multiplied(tmp_path, f"{tmp_path}/in.h5:/{part}", *words, "--tile", "64x48x32", "--io", way, ranks=ranks)
    assert c.tobytes() == multiplied(tmp_path, f"{tmp_path}/copy.h5:/A", *words).tobytes()


@each("order, dtype", [("C", "f8"), ("F", "f8"), ("C", ">f4"), ("F", "c16"), ("F", "i1")])
def test_files_of_numpy(tmp_path, order, dtype):
    """In either order; also what HDF5 reads or converts."""
    a = small((40, 30), dtype)
    np.save(tmp_path / "A.npy", np.asarray(a, order=order))
    for part in ["[3:20, 5:]", "[::3]", "[:, ::2]", "[1::4, 2::5]", "[:, 7:8]", "[9, None]", "[:, 4, None]"]:
        x = eval(f"a{part}", {"a": a}).astype(a.dtype.newbyteorder("="))  # pylint: disable=eval-used
        np.save(tmp_path / "B.npy", small((x.shape[1], 5), x.dtype))
        for way in "auto", "hdf5":
            c = multiplied(tmp_path, f"A.npy{part}", "-b", "B.npy", "--io", way, cwd=tmp_path)
            exact = x.astype("c16" if x.dtype.kind == "c" else "f8") @ np.load(tmp_path / "B.npy")
            assert np.array_equal(c, exact), (part, way)
    for words in [["A.npy[0:9]", "A.npy[5:14]", "--transb", "T"], ["-a", "A.npy[0:9, ::2]", "-b", "A.npy[0:9, ::2]", "--transb", "T"]]:
        done = run("dgemm_ooc", *words, "-o", "C.h5", "--force", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert run("dgemm_ooc", "--check-only", "-o", "C.h5", cwd=tmp_path).returncode == 0
    done = run("h5mat", "info", "A.npy[2:9, 1:]", cwd=tmp_path)
    assert done.returncode == 0 and "A[2:9, 1:]: 7 x 29" in done.stdout, done.stdout + done.stderr
    for part, says in [("[3]", "has 1 dimension (of 40x30)"), ("[99:]", "has no elements"), ("[x]", "is not understood")]:
        done = run("dgemm_ooc", f"A.npy{part}", "B.npy", "-o", "D.h5", cwd=tmp_path)
        assert done.returncode == INPUT and says in done.stderr, done.stderr


@pytest.fixture
def folder(tmp_path):
    """Operands that a test may change."""
    a = random((200, 220), seed=1)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["A"] = a
        file.create_dataset("chunks", data=a, chunks=(30, 40))
        file["packed"] = a
        file["packed"].attrs["scale_factor"] = 0.1
    return tmp_path


def test_products_of_one_slice(folder):
    """Equal slices are one matrix, by whatever names, and others are not."""
    with h5py.File(folder / "in.h5", "r") as file:
        a = file["A"][()]
    for x, y, one in [("A[:150, 20:]", "/A[0:150,20:999:1]", True), ("A", "A[:, :]", True), ("chunks[9:]", "/chunks[9:, :]", True),
                      ("A[::2, ::3]", "A[0:200:2,0::3]", True), ("A[0:100]", "A[100:200]", False), ("A[0:9]", "A[0:99:11]", False),
                      ("A[:, 0:50]", "A[:, 50:100]", False), ("A[::2, :3]", "A[::2, ::99]", False)]:
        done = run("dgemm_ooc", "in.h5", "-a", x, "-b", y, "--transb", "T", "--symmetric", "on", "--force", cwd=folder)
        assert done.returncode == (0 if one else INPUT), (x, y, done.stderr)
        assert one or "op(B) is not the transpose of op(A)" in done.stderr
        of = {name: eval("a" + name[name.index("[") if "[" in name else len(name):], {"a": a})  # pylint: disable=eval-used
              for name in (x, y)}
        done = run("dgemm_ooc", f"in.h5:/{x}", f"in.h5:/{y.lstrip('/')}", "--transb", "T", "-o", "C.h5", "--force", cwd=folder)
        with h5py.File(folder / "C.h5", "r") as file:
            assert np.allclose(file["C"][()], of[x] @ of[y].T)


def test_covariances_and_a_c_to_add(folder):
    with h5py.File(folder / "in.h5", "r") as file:
        a = file["A"][()]
    c = multiplied(folder, f"{folder}/in.h5:/A[20:180:2, 3:33]", "--product", "cov", "--transa", "T")
    assert np.allclose(c, np.cov(a[20:180:2, 3:33], rowvar=False))
    c = multiplied(folder, f"{folder}/in.h5:/chunks[5:15, 1:]", "--product", "gram")
    assert np.allclose(c, a[5:15, 1:] @ a[5:15, 1:].T)
    c = multiplied(folder, f"{folder}/in.h5:/A[0:9, 0:200]", "-b", f"{folder}/in.h5:/A[:, ::20]", "-c",
                   f"{folder}/in.h5:/A[1:10, 4:15]", "--beta", "2")
    assert np.allclose(c, a[:9, :200] @ a[:, ::20] + 2 * a[1:10, 4:15])


def test_checked_again(folder):
    """C says of which slices it is."""
    words = ["in.h5:/A[0:100]", "in.h5:/chunks[100:200, 7:50:3]", "--transa", "T", "-o", "C.h5"]
    done = run("dgemm_ooc", *words, "--report", "report.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    with h5py.File(folder / "C.h5", "r") as file:
        assert file["C"].attrs["A_dataset"] == "/A[0:100]" and file["C"].attrs["B_dataset"] == "/chunks[100:200, 7:50:3]"
    for more, code, says in [([], 0, "PASSED"), (["in.h5"], 0, "PASSED"), (["-a", "in.h5:/A[0:100]"], 0, "PASSED"),
                             (["-a", "in.h5:/A[100:200]"], INPUT, 'C was made from A = "/A[0:100]"')]:
        done = run("dgemm_ooc", *more, "--check-only", "-o", "C.h5", cwd=folder)
        assert done.returncode == code and says in done.stdout + done.stderr, (more, done.stdout, done.stderr)
    assert "/A[0:100]" in (folder / "report.json").read_text()
    done = run("dgemm_ooc", *words, cwd=folder)
    assert done.returncode == 0 and "already" in done.stdout, done.stdout + done.stderr
    done = run("dgemm_ooc", *["in.h5:/A[100:200]", *words[1:]], cwd=folder)
    assert done.returncode == INPUT and "--force" in done.stderr, done.stderr
    with h5py.File(folder / "in.h5", "a") as file:
        file["A"][0, 0] = 9
    assert run("dgemm_ooc", "--check-only", "-o", "C.h5", cwd=folder).returncode == 5
    with h5py.File(folder / "in.h5", "a") as file:
        del file["A"]
    done = run("dgemm_ooc", "--check-only", "-o", "C.h5", cwd=folder)
    assert done.returncode == INPUT and "C was made from A" in done.stderr, done.stderr


@pytest.mark.parametrize("a", ["A[0:190, 2:202]", "chunks[0:190, 2:202]", "A[0:190, ::2]"])
def test_stopped_and_resumed(folder, a):
    words = ["-a", f"{folder}/in.h5:/{a}", "-b", f"{folder}/in.h5:/A[10:200]", "--transa", "T", "-o", folder / "C.h5"]
    part = folder / "C.h5.part"
    with start_late(*words, "--tile", "20x20x16", late="5") as process:
        wait_until(lambda: part.exists() and part.stat().st_blocks, process)
        process.send_signal(signal.SIGUSR2)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == STOPPED, out + err
    other = run("dgemm_ooc", "-a", f"{folder}/in.h5:/A[10:200, 2:202]", *words[2:])
    assert other.returncode == INPUT and "A's dataset" in other.stderr, other.stderr
    done = run("dgemm_ooc", *words)
    assert done.returncode == 0 and "Restart " in done.stdout, done.stdout + done.stderr
    with h5py.File(folder / "C.h5", "r") as file:
        c = file["C"][()]
    assert c.tobytes() == multiplied(folder, words[1], *words[2:6]).tobytes()


def test_files_of_operands_are_guarded(folder):
    """An output is none of the files that a slice is read from, and an operand that is packed is refused as a whole is."""
    before = (folder / "in.h5").read_bytes()
    with h5py.File(folder / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((200, 220), "f8")
        layout[:] = h5py.VirtualSource(folder / "in.h5", "A", (200, 220))
        file.create_virtual_dataset("V", layout)
    for a in ["in.h5:/A[0:9]", "virtual.h5:/V[0:9, ::2]"]:
        done = run("dgemm_ooc", "-a", a, "--product", "gram", "-o", "in.h5", "--force", cwd=folder)
        assert done.returncode not in {0, 1} and "in.h5" in done.stderr, done.stderr
    done = run("dgemm_ooc", "-a", "in.h5:/packed[0:9]", "--product", "gram", "-o", "C.h5", cwd=folder)
    assert done.returncode == INPUT and "scale_factor" in done.stderr
    assert (folder / "in.h5").read_bytes() == before


@each("name, says", [
    ("contiguous[-3:]", 'is not understood from "-3:]" on; write an index or START:STOP:STEP'),
    ("contiguous[0:x]", 'from "x]" on'), ("contiguous[0:3", 'from "" on'), ("contiguous[]", 'from "]" on'),
    ("contiguous[0:3, ]", "is not understood"), ("contiguous[...]", "is not understood"), ("contiguous[0.5:3]", "is not understood"),
    ("contiguous[::-1]", "is not understood"), ("contiguous[" + "0, " * 40 + "0]", "is not understood"),
    ("contiguous[0:3, 0:3, 0:3]", "more indices than dimensions: it is of 60x50"),
    ("contiguous[60, None]", "has no index 60 in dimension 0, counted from 0: give one below 60"),
    ("contiguous[99999999999999999999, :]", "has no index 9223372036854775807"),
    ("contiguous[5:5]", "has no elements: give dimension 0"), ("contiguous[:, 50:]", "has no elements: give dimension 1"),
    ("contiguous[::0]", "a step of 0: give one of 1 or more"),
    ("contiguous[3]", "has 1 dimension (of 60x50), not two; write N:N+1"),
    ("stack", 'has 3 dimensions (4x30x20), not two; give one matrix of it, as "/stack[0]"'),
    ("stack[0, 0]", 'has 1 dimension (of 4x30x20), not two; give one matrix of it, as "/stack[0]"'),
    ("hyper[0]", 'has 3 dimensions (of 2x3x12x10), not two; give one matrix of it, as "/hyper[0, 0]"'),
    ("vector", 'has 1 dimension (70), not two; give it as a column, "/vector[:, None]"'),
    ("vector[3:9]", 'give it as a column, "/vector[:, None]"'),
    ("nothing[0:3]", 'no dataset "/nothing"'), ("g[0:3]", "is a group, not a dataset; give the path of one; datasets in it: /g/A"),
    ("never[0:3]", "has no elements at all"), ("[0:3]", 'no dataset "/[0:3]"')])
def test_mistakes(tmp_path, source, name, says):
    done = run("dgemm_ooc", "-a", f"{source}:/{name}", "--product", "gram", "-o", tmp_path / "C.h5")
    assert done.returncode == INPUT and says in done.stderr and len(done.stderr.splitlines()) == 1, (name, done.stderr)
    assert not (tmp_path / "C.h5").exists()


@each("name, says", [
    ("contiguous[10:20, 3:9]", ["10 x 6 double, 480 bytes", "contiguous f64, at offset", "by offset"]),
    ("contiguous[:, ::2]", ["60 x 25 double", "by HDF5 (columns apart)"]),
    ("gzip[1:4, 2:5]", ["3 x 3 double", "chunked 11x6 shuffle+gzip", "as raw chunks, decoded here"]),
    ("gzip[::2]", ["by HDF5 (a slice across chunks)"]), ("stack[2]", ["/stack[2]: 30 x 20", "by offset"]),
    ("stack_gzip[2]", ["chunked 2x8x7", "by HDF5"]), ("contiguous_z[3:, 1:]", ["57 x 49 complex double", "by offset"])])
def test_info(source, name, says):
    done = run("h5mat", "info", f"{source}:/{name}")
    assert done.returncode == 0 and all(one in done.stdout for one in says), done.stdout + done.stderr


@pytest.mark.parametrize("out", ["C.h5:/C[0:3]", "C.h5[0:3]", "C.npy[0:3]", "new.h5:/C[0:3]"])
def test_c_is_no_slice(tmp_path, out):
    a = np.random.default_rng(1).random((8, 6))
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["A"] = a
    for name in "C.h5", "C.npy":
        assert run("dgemm_ooc", "in.h5", "--product", "gram", "-o", name, cwd=tmp_path).returncode == 0
    for words in [], ["--force"], ["--check-only"]:
        done = run("dgemm_ooc", "in.h5", "--product", "gram", "-o", out, *words, cwd=tmp_path)
        assert done.returncode == 2 and "names a slice" in done.stderr, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"in.h5", "C.h5", "C.npy"}


def test_raw_files_and_names_that_begin_with_a_star(tmp_path):
    a = np.random.default_rng(1).random((8, 6))
    a.tofile(tmp_path / "a.bin")
    done = run("dgemm_ooc", "-a", "a.bin:f8:8x6[1:7:2, 2:]", "-b", "a.bin:f8:8x6:F[1:7:2, 2:]", "--transb", "T", "-o", "C.npy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    turned = a.reshape(-1).reshape((8, 6), order="F")
    assert np.allclose(np.load(tmp_path / "C.npy"), a[1:7:2, 2:] @ turned[1:7:2, 2:].T)
    with h5py.File(tmp_path / "star.h5", "w") as file:
        file["*foo"], file["Afoo"] = a[:1, :2], a[:2, :2]
    info = run("h5mat", "info", tmp_path / "star.h5:*foo")
    assert "1 x 2" in info.stdout, info.stdout + info.stderr


def test_an_index_into_chunks_is_read_at_once(tmp_path):
    """Not element by element, as between spaces of other ranks, which took 18 times as long."""
    v = np.ones((4_000_000, 1))
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("v", data=v[:, 0], chunks=(500_000,))
        file.create_dataset("column", data=v, chunks=(500_000, 1))
    seconds = {}
    for name in "column", "v[:, None]":
        done = run("dgemm_ooc", "in.h5", "-a", name, "-b", name, "--transa", "T", "--io", "hdf5", "--symmetric", "off", "-o", "C.npy", "--force",
                   "--report", "r.json", cwd=tmp_path)
        assert done.returncode == 0 and np.load(tmp_path / "C.npy") == len(v), done.stderr
        seconds[name] = json.loads((tmp_path / "r.json").read_text())["stages"]["read"]["busy_max_s"]
    assert seconds["v[:, None]"] < 6 * seconds["column"] + 0.05, seconds


@pytest.mark.parametrize("dtype", ["f8", ">f8", "c16", "i2", "f2"])
def test_vectors_and_stacks_of_numpy(tmp_path, dtype):
    """As those of HDF5, by offset, or by HDF5 where the order of bytes is another one."""
    rng = np.random.default_rng(3)
    stack, vector = rng.integers(-4, 5, (3, 20, 30)).astype(dtype), rng.integers(-4, 5, 30).astype(dtype)
    np.save(tmp_path / "s.npy", stack)
    np.save(tmp_path / "v.npy", vector)
    words = {"c16": ["--type", "z"], "i2": ["--type", "d"]}.get(dtype, [])
    for a, b, expected in [("s.npy[1]", "v.npy[:, None]", stack[1] @ vector[:, None]), ("v.npy[None]", "s.npy[:, 2:9:3, 4].T", None),
                           ("s.npy[:, 2, :]", "v.npy[:, None]", stack[:, 2] @ vector[:, None]),
                           ("s.npy[1:, 3:4, ::2][0]", "v.npy", None), ("s.npy[2, 4:15:2, 3:]", "v.npy[3:, None]", stack[2, 4:15:2, 3:] @ vector[3:, None]),
                           ("s.npy[0, :, ::2]", "v.npy[::2, None]", stack[0, :, ::2] @ vector[::2, None])]:
        done = run("dgemm_ooc", "-a", a, "-b", b, *words, "-o", "C.npy", "--force", cwd=tmp_path)
        if expected is None:
            assert done.returncode in (2, 3) and len(done.stderr.splitlines()) < 3, (a, b, done.stderr)
            continue
        assert done.returncode == 0, (a, b, done.stderr)
        assert np.array_equal(np.load(tmp_path / "C.npy"), expected), (a, b)
