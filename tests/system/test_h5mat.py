"""h5mat as a user runs it: gen, info and diff on files of every kind that h5py writes."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from cases import each
from launch import BUILD, PATIENCE, environment

USAGE, INPUT, RESOURCES, DIFFERENT = 2, 3, 4, 5


def h5mat(*args, code=0, **options):
    """Run h5mat; returns its standard output, or standard error if it must fail."""
    command = [BUILD / "h5mat", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **options)
    assert done.returncode == code, done.stdout + done.stderr
    if code in (0, DIFFERENT):
        assert done.stderr == ""
        return done.stdout
    assert done.stdout == "" and done.stderr.startswith("h5mat")
    return done.stderr


def gen(name, rows, cols, *options, **more):
    return h5mat("gen", name, "--rows", rows, "--cols", cols, *options, **more)


def load(file, dataset="A"):
    with h5py.File(file, "r") as f:
        return f[dataset][...]


def splitmix(seed, count):
    """The random generator, reimplemented."""
    def mix(z):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    with np.errstate(over="ignore"):
        index = np.arange(1, count + 1, dtype=np.uint64)
        start = mix(np.array([seed], dtype=np.uint64))
        return mix(start + index * np.uint64(0x9E3779B97F4A7C15))


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# gen


@pytest.mark.smoke
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_gen_random(seed):
    gen("x.h5", 300, 200, "--seed", seed)
    bits = splitmix(seed, 300 * 200).reshape(300, 200)
    assert np.array_equal(load("x.h5"), (bits >> np.uint64(11)) * 2.0**-52 - 1)
    gen("x.h5:/s", 300, 200, "--seed", seed, "--type", "s")
    single = load("x.h5", "s")
    assert single.dtype == np.float32
    assert np.array_equal(single, (bits >> np.uint64(40)) * 2.0**-23 - 1)
    assert -1 <= single.min() < -0.99 and 0.99 < single.max() < 1


def test_gen_integer():
    gen("x.h5", 300, 200, "--pattern", "integer")
    bits = splitmix(1, 300 * 200).reshape(300, 200)
    expected = ((bits >> np.uint64(32)) * np.uint64(17) >> np.uint64(32)).astype(int) - 8
    assert np.array_equal(load("x.h5"), expected)
    assert set(np.unique(expected)) == set(range(-8, 9))


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (1, 1)])
@pytest.mark.parametrize("kind", ["d", "single"])
def test_gen_constant(shape, kind):
    gen("x.h5:/one", *shape, "--pattern", "ones", "--type", kind)
    gen("x.h5:/i", *shape, "--pattern", "identity", "--type", kind)
    assert np.array_equal(load("x.h5", "one"), np.ones(shape))
    assert np.array_equal(load("x.h5", "i"), np.eye(*shape))


LAYOUTS = [
    ["--chunk", "100x100"],
    ["--chunk", "7x1300"],
    ["--chunk", "2000x3"],
    ["--chunk", "1000000x1000000"],
    ["--chunk", "64x64", "--gzip", "1"],
    ["--gzip", "4", "--shuffle"],
    ["--shuffle"],
]


@pytest.mark.singly
@pytest.mark.parametrize("pattern", [[], ["--pattern", "genotype", "--missing", "0.1"]])
@pytest.mark.parametrize("kind", ["d", "s"])
def test_gen_does_not_depend_on_layout_or_threads(kind, pattern):
    gen("x.h5:/plain", 1500, 1100, "--type", kind, *pattern, env=environment(OMP_NUM_THREADS="1"))
    plain = load("x.h5", "plain")
    for i, layout in enumerate(LAYOUTS):
        gen(f"x.h5:/group/sub/m{i}", 1500, 1100, "--type", kind, *pattern, *layout)
        assert np.array_equal(load("x.h5", f"group/sub/m{i}"), plain, equal_nan=True), layout
    with h5py.File("x.h5", "r") as f:
        made = f["group/sub/m5"]
        assert made.chunks == (1024, 1024) and made.compression == "gzip" and made.shuffle
        assert f["plain"].id.get_offset() % 2**20 == 0


@pytest.mark.parametrize("kind", ["d", "s"])
def test_gen_genotypes(kind):
    """Each marker has its own frequency, and two independent draws of it."""
    rows, cols = 4000, 900
    gen("x.h5", rows, cols, "--pattern", "genotype", "--type", kind)
    x = load("x.h5")
    assert x.dtype == {"d": np.float64, "s": np.float32}[kind] and set(np.unique(x)) == {0, 1, 2}
    f = x.mean(axis=0) / 2
    assert 0.045 < f.min() < 0.06 and 0.48 < f.max() < 0.52 and abs(f.mean() - 0.275) < 6 * 0.13 / cols**0.5
    for value, chance in (0, (1 - f) ** 2), (1, 2 * f * (1 - f)), (2, f**2):
        # of a marker within 6 sigma (and what its frequency is off by), of all of them closer
        off = (x == value).mean(axis=0) - chance
        assert abs(off).max() < 6 * 0.5 / rows**0.5 and abs(off.mean()) < 6 * 0.5 / (rows * cols)**0.5
    assert abs(np.corrcoef(x[:, :60].T) - np.eye(60)).max() < 6 / rows**0.5
    gen("y.h5", rows, cols, "--pattern", "genotype", "--seed", 2)
    assert abs(np.corrcoef(load("y.h5").mean(axis=0) / 2, f)[0, 1]) < 6 / cols**0.5


@pytest.mark.parametrize("frequency", [0, 0.001, 0.3, 0.5])
def test_gen_genotypes_of_one_frequency(frequency):
    gen("x.h5", 1000, 700, "--pattern", "genotype", "--frequency", frequency)
    x, sigma = load("x.h5"), (frequency * (1 - frequency) / 2) ** 0.5
    assert abs(x.mean(axis=0) / 2 - frequency).max() <= 6 * sigma / 1000**0.5 + 0.003 * (0 < frequency < 0.01)
    assert abs(x.mean() / 2 - frequency) <= 6 * sigma / 700000**0.5


@pytest.mark.parametrize("kind", ["d", "s"])
@pytest.mark.parametrize("missing", [0.001, 0.2, 1])
def test_gen_missing_genotypes(missing, kind):
    gen("x.h5:/all", 1000, 700, "--pattern", "genotype", "--type", kind)
    gen("x.h5:/some", 1000, 700, "--pattern", "genotype", "--type", kind, "--missing", missing)
    complete, x = load("x.h5", "all"), load("x.h5", "some")
    gaps = np.isnan(x)
    assert abs(gaps.mean() - missing) <= 6 * (missing * (1 - missing) / x.size) ** 0.5
    assert np.array_equal(x[~gaps], complete[~gaps])
    if missing == 0.2:  # whatever the value and the marker
        assert max(abs(gaps[complete == value].mean() - missing) for value in range(3)) < 6 * 0.4 / 50000**0.5
        assert abs(gaps.mean(axis=0) - missing).max() < 6 * 0.4 / 1000**0.5


def test_gen_large_rows_are_cut_into_blocks():
    gen("x.h5", 3, 1_300_001, "--pattern", "integer")
    bits = splitmix(1, 3 * 1_300_001).reshape(3, -1)
    expected = ((bits >> np.uint64(32)) * np.uint64(17) >> np.uint64(32)).astype(int) - 8
    assert np.array_equal(load("x.h5"), expected)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("layout", [[], ["--gzip", "1"]])
def test_gen_without_elements(shape, layout):
    gen("x.h5", *shape, *layout)
    assert load("x.h5").shape == shape
    assert "equal" in h5mat("diff", "x.h5", "x.h5")


def test_gen_reports_and_is_reproducible():
    out = gen("x.h5:/A", 100, 50)
    assert re.fullmatch(r"x\.h5:/A: 100 x 50 double, 40000 bytes in [\d.]+ s, [\d.]+ .?B/s\n", out)
    gen("y.h5", 100, 50)
    assert Path("x.h5").read_bytes() == Path("y.h5").read_bytes()


def test_gen_keeps_what_is_there():
    gen("x.h5", 10, 10)
    before = load("x.h5")
    assert 'already holds "/A"; --force replaces it' in gen("x.h5", 3, 3, code=INPUT)
    gen("x.h5:/B", 20, 20)
    assert np.array_equal(load("x.h5"), before)
    gen("x.h5", 4, 6, "--pattern", "ones", "--force")
    assert np.array_equal(load("x.h5"), np.ones((4, 6)))
    gen("x.h5:/g/C", 2, 2)
    assert "is not a dataset" in gen("x.h5:/g", 2, 2, "--force", code=INPUT)
    assert "leads through one" in gen("x.h5:/B/C", 2, 2, code=INPUT)
    with h5py.File("x.h5", "r") as f:
        assert sorted(f) == ["A", "B", "g"]


@each("args", [
    [], ["x.h5"], ["x.h5", "--rows", "3"], ["x.h5", "--rows", "3x", "--cols", "3"],
    ["x.h5", "--rows", "-3", "--cols", "3"], ["x.h5", "y.h5", "--rows", "3", "--cols", "3"],
    ["x.h5", "--rows", str(2**32), "--cols", str(2**32)], ["x.h5", "--wrong"],
    ["x.h5", "--rows", "3", "--cols", "3", "--gzip", "10"],
    ["x.h5", "--rows", "3", "--cols", "3", "--chunk", "3"],
    ["x.h5", "--rows", "3", "--cols", "3", "--type", "q"],
    ["x.h5", "--rows", "3", "--cols", "3", "--pattern", "dots"],
])
def test_gen_usage(args):
    h5mat("gen", *args, code=USAGE)
    assert not os.path.exists("x.h5")


@each("options, says", [
    (["--frequency", "0.6", "--pattern", "genotype"], '--frequency takes a number from 0 to 0.5, not "0.6"'),
    (["--frequency", "nan", "--pattern", "genotype"], '--frequency takes a number from 0 to 0.5, not "nan"'),
    (["--missing", "-0.1", "--pattern", "genotype"], '--missing takes a number from 0 to 1, not "-0.1"'),
    (["--missing", "5%", "--pattern", "genotype"], '--missing takes a number from 0 to 1, not "5%"'),
    (["--missing", "", "--pattern", "genotype"], '--missing takes a number from 0 to 1, not ""'),
    (["--missing", "0.1"], "--missing goes with --pattern genotype only"),
    (["--frequency", "0.1", "--pattern", "ones"], "--frequency goes with --pattern genotype only"),
    (["--pattern", "dots"], '--pattern is random, integer, ones, identity or genotype, not "dots"')])
def test_gen_usage_of_genotypes(options, says):
    assert says in gen("x.h5", 3, 3, *options, code=USAGE)
    assert not os.path.exists("x.h5")


def test_gen_refuses_what_is_no_hdf5_file():
    Path("text").write_text("hello, this is no HDF5 file\n" * 100)
    Path("empty").touch()
    assert "is not an HDF5 file" in gen("text", 3, 3, code=INPUT)
    assert "is not an HDF5 file (it is empty)" in gen("empty", 3, 3, code=INPUT)
    assert "is a directory" in gen(".", 3, 3, code=INPUT)
    assert "cannot be created" in gen("nowhere/x.h5", 3, 3, code=INPUT)
    os.symlink("target.h5", "link.h5")
    assert "cannot be created" in gen("link.h5", 3, 3, code=INPUT)
    assert not os.path.exists("target.h5")


def interrupt(name, number, *options):
    """Start a slow gen and send it a signal while it fills its dataset."""
    size = os.path.getsize("x.h5") if os.path.exists("x.h5") else 0
    command = [BUILD / "h5mat", "gen", name, "--rows", "8000", "--cols", "8000", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not os.path.exists("x.h5") or os.path.getsize("x.h5") <= size:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(number)
    return process.wait(timeout=PATIENCE), process.stderr.read()


SLOW = ["--gzip", "9", "--chunk", "100x100"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_gen_interrupted(number):
    code, text = interrupt("x.h5", number, *SLOW)
    assert code == 1 and f"stopped by signal {number:d}" in text
    assert not os.path.exists("x.h5")

    gen("x.h5", 10, 10)
    before = load("x.h5")
    code, text = interrupt("x.h5:/g/B", number, *SLOW)
    assert code == 1
    with h5py.File("x.h5", "r") as f:
        assert np.array_equal(f["A"], before)
        assert list(f) == ["A"]
    assert os.path.getsize("x.h5") < 2**22


def begin(name, *options):
    """Start a gen of a contiguous matrix in a file of few others, and stop it when it has begun to write elements."""
    file, path = name.split(":")
    process = subprocess.Popen([BUILD / "h5mat", "gen", name, "--rows", "6000", "--cols", "6000", *options],
                               stderr=subprocess.PIPE, text=True)
    while not os.path.exists(file) or os.stat(file).st_blocks < 2**12:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert f"{path[1:]}.part" in everything(file)
    return process


def end(process, *numbers):
    for number in [*numbers, signal.SIGCONT]:
        process.send_signal(number)
    _, text = process.communicate(timeout=PATIENCE)
    return process.returncode, text


def everything(name):
    found = []
    with h5py.File(name, "r") as f:
        f.visit(found.append)
    return found


ADDED = {  # by others; and what is there afterwards
    "dataset": (lambda f: f.create_dataset("mine", data=[1, 2, 3]), ["mine"]),
    "group": (lambda f: f.create_group("mine"), ["mine"]),
    "attribute": (lambda f: f.attrs.update(mine=1), []),
    "attribute of a group": (lambda f: f["x"].attrs.update(mine=1), ["x"]),
    "group in a group": (lambda f: f.create_group("x/mine"), ["x", "x/mine"]),
    "dataset beside it": (lambda f: f.create_dataset("x/y/mine", data=[1, 2, 3]), ["x", "x/y", "x/y/mine"])}


@pytest.mark.parametrize("what", ADDED)
def test_gen_interrupted_keeps_what_others_added(what):
    add, left = ADDED[what]
    with begin("x.h5:/x/y/A") as process:
        with h5py.File("x.h5", "r+") as f:
            add(f)
        code, text = end(process, signal.SIGINT)
    assert code == 1 and f"stopped by signal {signal.SIGINT:d}" in text
    assert everything("x.h5") == left


def test_gen_interrupted_keeps_the_groups_that_were_there():
    gen("x.h5:/B", 20, 20)
    with h5py.File("x.h5", "r+") as f:
        f.create_group("x")
    with begin("x.h5:/x/y/z/A") as process:
        assert end(process, signal.SIGTERM)[0] == 1
    assert everything("x.h5") == ["B", "x"]
    gen("x.h5:/x/y/A", 3, 3)
    assert everything("x.h5") == ["B", "x", "x/y", "x/y/A"]


def test_gen_interrupted_leaves_a_file_that_others_have_open():
    with begin("x.h5:/A") as process:
        with h5py.File("x.h5", "r+"):
            code, text = end(process, signal.SIGINT)
    assert code == 1 and '"/A.part" stays there' in text
    assert everything("x.h5") == ["A.part"]
    gen("x.h5:/A", 3, 3, "--force")
    assert everything("x.h5") == ["A"]


@pytest.mark.parametrize("numbers", [[], [signal.SIGINT]])
def test_gen_neither_names_nor_removes_what_others_have_put_in_its_place(numbers):
    with begin("x.h5:/A") as process:
        with h5py.File("x.h5", "r+") as f:
            f["mine"] = [1, 2, 3]
            del f["A.part"]
            f.move("mine", "A.part")
        code, text = end(process, *numbers)
    assert code == 1 and ("has removed or replaced" in text or numbers), text
    with h5py.File("x.h5", "r") as f:
        assert list(f) == ["A.part"] and list(f["A.part"]) == [1, 2, 3]


@pytest.mark.parametrize("options, other", [([], "dataset"), (["--force"], "group")])
def test_gen_does_not_replace_what_has_appeared(options, other):
    with begin("x.h5:/A", *options) as process:
        with h5py.File("x.h5", "r+") as f:
            if other == "group":
                f["A/mine"] = [1, 2, 3]
            else:
                f["A"] = [1, 2, 3]
        code, text = end(process)
    assert code == INPUT and 'has created "/A" meanwhile' in text
    assert everything("x.h5") == (["A", "A/mine"] if other == "group" else ["A"])


def test_gen_killed():
    gen("x.h5", 10, 10)
    before = load("x.h5")
    interrupt("x.h5:/B", signal.SIGKILL, *SLOW)
    assert np.array_equal(load("x.h5"), before)
    with h5py.File("x.h5", "r") as f:
        assert sorted(f) == ["A", "B.part"]
    assert 'an unfinished "/B.part"' in gen("x.h5:/B", 3, 3, code=INPUT)
    gen("x.h5:/B", 3, 3, "--force")
    with h5py.File("x.h5", "r") as f:
        assert sorted(f) == ["A", "B"]


@pytest.mark.parametrize(
    "layout", [[], ["--chunk", "100x100"], ["--chunk", "512x512"], ["--gzip", "1"]])
def test_gen_disk_full(small_disk, layout):
    file = small_disk / "x.h5"
    assert "make room there" in gen(file, 4000, 4000, *layout, code=RESOURCES)
    assert list(small_disk.iterdir()) == []
    gen(file, 100, 100)
    before = load(file)
    assert "make room there" in gen(f"{file}:/B", 4000, 4000, *layout, code=RESOURCES)
    with h5py.File(file, "r") as f:
        assert list(f) == ["A"]
        assert np.array_equal(f["A"], before)
    gen(f"{file}:/B", 1000, 1000)


# info


@pytest.fixture
def zoo():
    """Write one dataset of every kind; returns the values of the matrices."""
    values = np.arange(60.0).reshape(6, 10)
    Path("raw.bin").write_bytes(values.tobytes())
    with h5py.File("source.h5", "w") as f:
        f["A"] = values
        f["z"] = values.astype(complex)
    with h5py.File("zoo.h5", "w") as f:
        f["plain"] = values
        f["plain32"] = values.astype("f4")
        f.create_dataset("chunked", data=values, chunks=(4, 3))
        f.create_dataset("gzip", data=values, chunks=(4, 3), compression=4, shuffle=True)
        f.create_dataset("lzf", data=values, chunks=(4, 3), compression="lzf")
        f.create_dataset("checked", data=values, chunks=(2, 2), fletcher32=True)
        f["swapped"] = values.astype(">f8")
        f["half"] = values.astype("f2")
        f["long"] = values.astype(np.longdouble)
        f["int"] = values.astype("i4")
        f["unsigned"] = values.astype("u1")
        f["bool"] = values > 7
        f["text"] = values.astype("S8")
        f["pair"] = values.astype([("x", "f8"), ("y", "f4")])
        f["complex"] = values.astype(complex)
        f["row"] = values[0]
        f["cube"] = values.reshape(2, 3, 10)
        f["scalar"] = 1.0
        f["null"] = h5py.Empty("f8")
        f["nothing"] = np.zeros((0, 10))
        f.create_dataset("unwritten", (6, 10), "f8", fillvalue=2.5)
        f.create_dataset("external", (6, 10), "f8", external=[(f"{os.getcwd()}/raw.bin", 0, 480)])
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((6, 10))
        small = h5py.h5d.create(f.id, b"compact", h5py.h5t.NATIVE_DOUBLE, space, plist)
        small.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        layout = h5py.VirtualLayout((6, 10), "f8")
        layout[:] = h5py.VirtualSource("source.h5", "A", (6, 10))
        f.create_virtual_dataset("virtual", layout)
        f["group/inner"] = values
        f["soft"] = h5py.SoftLink("/group/inner")
        f["out"] = h5py.ExternalLink("source.h5", "/A")
        f["softout"] = h5py.SoftLink("/out")
        f["dangling"] = h5py.SoftLink("/not/there")
        f["lost"] = h5py.ExternalLink("lost.h5", "/A")
    return values


READABLE = {
    "plain": "contiguous f64, at offset",
    "plain32": "contiguous f32, at offset",
    "chunked": "chunked 4x3 f64\n  read:   as raw chunks",
    "gzip": "chunked 4x3 shuffle+gzip f64\n  read:   as raw chunks, decoded here",
    "checked": "chunked 2x2 fletcher32 f64\n  read:   as raw chunks, decoded here",
    "swapped": "contiguous f64 big-endian\n  read:   by HDF5 (converted)",
    "half": "contiguous f16, at offset",
    "long": "read:   by HDF5 (converted), with --type",
    "int": "contiguous i32, at offset",
    "unsigned": "contiguous u8, at offset",
    "external": "contiguous in 1 external file f64\n  read:   by HDF5 (external storage)",
    "compact": "compact f64\n  read:   by HDF5 (stored in the object header",
    "virtual": "virtual, with 1 source f64\n  read:   by HDF5 (virtual dataset",
    "group/inner": "read:   by offset",
    "soft": "read:   by offset",
    "out": "read:   by offset",
    "softout": "contiguous f64\n  read:   by HDF5 (behind an external link)",
}


@each("name", READABLE)
def test_info_of_matrices(zoo, name):
    out = h5mat("info", f"zoo.h5:/{name}")
    assert "6 x 10" in out and READABLE[name] in out
    assert "equal" in h5mat("diff", f"zoo.h5:/{name}", "zoo.h5:/plain")


def test_info_offset_is_where_the_bytes_are(zoo):
    offset = int(re.search(r"at offset (\d+)", h5mat("info", "zoo.h5:/plain"))[1])
    assert Path("zoo.h5").read_bytes()[offset:offset + 480] == zoo.tobytes()
    with h5py.File("blocked.h5", "w", userblock_size=512) as f:
        f["A"] = zoo
    offset = int(re.search(r"at offset (\d+)", h5mat("info", "blocked.h5"))[1])
    assert Path("blocked.h5").read_bytes()[offset:offset + 480] == zoo.tobytes()
    gen("blocked.h5:/B", 100, 100)
    assert "at offset" in h5mat("info", "blocked.h5:/B")
    gen("plain.h5", 100, 100)
    assert "equal" in h5mat("diff", "blocked.h5:/B", "plain.h5:/A")


def test_info_of_a_link_to_another_file(zoo):
    assert h5mat("info", "zoo.h5:/out").startswith("/A: 6 x 10 double, 480 bytes\n")


def test_what_is_larger_than_the_disk(tmp_path):
    text = h5mat("gen", tmp_path / "h.h5", "--rows", 10**6, "--cols", 10**6, code=RESOURCES)
    assert "needs 7.28 TiB, and" in text and "are free in its file system" in text
    assert list(tmp_path.iterdir()) == []


def test_unwritten_is_its_fill_value(zoo):
    assert "by HDF5 (never written)" in h5mat("info", "zoo.h5:/unwritten")
    with h5py.File("filled.h5", "w") as f:
        f["A"] = np.full((6, 10), 2.5)
    assert "equal" in h5mat("diff", "zoo.h5:/unwritten", "filled.h5:/A")


REFUSED = {
    "lzf": "uses filter 32000 (lzf), which is not available here; store the dataset without it",
    "pair": "holds compounds that are no complex numbers",
    "text": "holds strings, not numbers",
    "row": "has 1 dimension (10), not two; give it as a column",
    "cube": "has 3 dimensions (2x3x10), not two",
    "scalar": "is a scalar",
    "null": "has no elements at all",
    "group": '"/group" is a group, not a dataset; give the path of one; datasets in it: /group/inner',
    "nope": 'no dataset "/nope"; datasets here: /bool (boolean i8 6x10), /checked (f64 6x10)',
    "group/nope": 'no dataset "/group/nope"',
    "dangling": '"/dangling", a link to ',
    "lost": '"/lost", a link to ',
}


@each("name", REFUSED)
def test_info_of_others(zoo, name):
    text = h5mat("info", f"zoo.h5:/{name}", code=INPUT)
    assert text.startswith("h5mat: zoo.h5:") and REFUSED[name] in text
    assert text.count("\n") == 1


def test_info_of_a_file(zoo):
    out = h5mat("info", "zoo.h5")
    for name in [*READABLE, "unwritten"]:
        assert f"/{'A' if name == 'out' else name}: 6 x 10 " in out
    assert "/nothing: 0 x 10 double, 0 bytes" in out
    assert "/complex: 6 x 10 complex double, 960 bytes" in out
    assert "/pair: 6 x 10\n  read:   not at all: " in out
    assert "/cube" not in out and "/scalar" not in out


def test_info_of_no_matrices():
    with h5py.File("none.h5", "w") as f:
        f["v"] = [1.0, 2.0]
    text = "there is no two-dimensional dataset in it"
    assert text in h5mat("info", "none.h5", code=INPUT)
    assert f'no dataset "/A"; {text}' in h5mat("info", "none.h5:/A", code=INPUT)
    assert "none.h5.gone: no such file" in h5mat("info", "none.h5.gone", code=INPUT)


def test_file_with_colons_in_its_name():
    gen("a:b.h5", 3, 3)
    assert Path("a:b.h5").exists()
    assert "/A: 3 x 3" in h5mat("info", "a:b.h5:/A")
    assert "/A: 3 x 3" in h5mat("info", "a:b.h5")


def test_file_open_elsewhere():
    gen("x.h5", 3, 3)
    with h5py.File("x.h5", "r+"):
        text = h5mat("info", "x.h5", code=INPUT)
        assert "x.h5 is open for writing elsewhere: close it there" in text
        assert "HDF5_USE_FILE_LOCKING=FALSE" in text
        h5mat("info", "x.h5", env=environment(HDF5_USE_FILE_LOCKING="FALSE"))
    with h5py.File("x.h5", "r"):
        h5mat("info", "x.h5")
        assert "is open or being read elsewhere" in gen("x.h5:/B", 3, 3, code=INPUT)


def test_file_cut_short():
    gen("x.h5", 300, 300)
    os.truncate("x.h5", os.path.getsize("x.h5") - 5000)
    assert "x.h5 is cut short; copy it again" in h5mat("info", "x.h5", code=INPUT)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run it as somebody else")
def test_file_without_permission(tmp_path):
    gen("x.h5", 3, 3)
    os.chmod("x.h5", 0o600)
    for place in [tmp_path, *tmp_path.parents[:2]]:
        os.chmod(place, 0o755)
    assert "no permission to read it" in h5mat("info", "x.h5", code=INPUT, user=65534)
    os.chmod("x.h5", 0o644)
    assert "no permission to write it" in gen("x.h5:/B", 3, 3, code=INPUT, user=65534)
    assert "cannot be created" in gen("y.h5", 3, 3, code=INPUT, user=65534)


# diff


def write(**matrices):
    with h5py.File("d.h5", "w") as f:
        for name, values in matrices.items():
            f[name] = values


def number(out, label):
    return float(re.search(label + r" +(\S+)", out)[1])


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_diff_measures(dtype):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((700, 1500)).astype(dtype)
    b = (a + 1e-3 * rng.standard_normal(a.shape)).astype(dtype)
    write(a=a, b=b)
    out = h5mat("diff", "d.h5:/a", "d.h5:/b", "--tol", "1e-3", code=DIFFERENT)
    delta = np.abs(a.astype("f8") - b)
    row, col = np.unravel_index(delta.argmax(), delta.shape)
    assert f"at row {row}, column {col}: " in out
    assert number(out, "max abs difference") == pytest.approx(delta.max(), rel=1e-5)
    assert number(out, "RMS") == pytest.approx(np.sqrt((delta**2).mean()), rel=1e-5)
    assert number(out, "MSE") == pytest.approx((delta**2).mean(), rel=1e-5)
    relative = np.linalg.norm(delta) / np.linalg.norm(a.astype("f8"))
    assert number(out, "relative Frobenius") == pytest.approx(relative, rel=1e-5)
    over = (delta > 1e-3).sum()
    assert f"{over} of {a.size} elements, {100 * over / a.size:.6g} %" in out
    assert out.endswith("DIFFERENT\n")
    out = h5mat("diff", "d.h5:/a", "d.h5:/b", "--tol", "1")
    assert out.endswith("equal within the tolerance\n")


def test_diff_digits_do_not_depend_on_threads():
    gen("x.h5:/a", 2000, 1500, "--seed", 1)
    gen("x.h5:/b", 2000, 1500, "--seed", 2)
    outs = {h5mat("diff", "x.h5:/a", "x.h5:/b", code=DIFFERENT, env=environment(OMP_NUM_THREADS=str(n)))
            for n in (1, 2, 7)}
    assert len(outs) == 1


def test_diff_of_types_and_layouts():
    gen("x.h5:/a", 500, 400, "--pattern", "integer")
    compressed = ["--chunk", "64x32", "--gzip", "1"]
    gen("x.h5:/b", 500, 400, "--pattern", "integer", "--type", "s", *compressed)
    assert "equal" in h5mat("diff", "x.h5:/a", "x.h5:/b")
    assert "equal" in h5mat("diff", "x.h5:/b", "x.h5:/a")


def test_diff_of_special_values():
    a = np.array([[np.nan, np.inf, -np.inf, 0.0]])
    c, d = np.array([[1.0, np.inf, -np.inf, -0.0]]), np.array([[np.nan, 1, -np.inf, 0]])
    write(a=a, b=a, c=c, d=d)
    assert h5mat("diff", "d.h5:/a", "d.h5:/b").endswith("equal\n")
    for other in "cd":
        out = h5mat("diff", "d.h5:/a", f"d.h5:/{other}", "--tol", "1e300", code=DIFFERENT)
        assert "max abs difference  inf" in out and "1 of 4 elements, 25 %" in out


@pytest.mark.parametrize("a, b, says", [
    (np.int64(2**53), np.int64(2**53 + 1), "9007199254740992 and 9007199254740993"),
    (np.int64(2**62), np.int64(2**62 + 7), "4611686018427387904 and 4611686018427387911"),
    (np.int64(2**53 + 1), np.float64(2**53), "max abs difference  1 "),
    (np.int64(-2**63), np.int32(0), "max abs difference  9.22337e+18 ")])
def test_diff_of_integers_is_exact(a, b, says):
    write(a=np.full((2, 3), a), b=np.full((2, 3), b))
    assert says in h5mat("diff", "d.h5:/a", "d.h5:/b", code=DIFFERENT)
    assert h5mat("diff", "d.h5:/a", "d.h5:/a").endswith("\nequal\n")


@pytest.mark.parametrize("a, b", [(np.uint64(2**63), np.uint64(2**63 + 1)),
                                  (np.longdouble(1), np.longdouble(1) + np.longdouble(2)**-60)])
def test_diff_says_what_it_rounds(a, b):
    write(a=np.full((2, 3), a), b=np.full((2, 3), b))
    out = h5mat("diff", "d.h5:/a", "d.h5:/b")
    assert ", rounded to doubles\n" in out and out.endswith("\nequal as doubles\n")


@pytest.mark.parametrize("size", [1e-200, 1e200, 5e-324])
def test_diff_of_extreme_magnitudes(size):
    write(a=np.full((4, 5), size), b=np.full((4, 5), 3 * size))
    out = h5mat("diff", "d.h5:/a", "d.h5:/b", code=DIFFERENT)
    assert number(out, "RMS") == pytest.approx(2 * size, rel=1e-5, abs=0)
    assert number(out, "relative Frobenius") == pytest.approx(2, rel=1e-5)


def test_diff_refuses():
    write(a=np.ones((3, 4)), b=np.ones((4, 3)))
    text = h5mat("diff", "d.h5:/a", "d.h5:/b", code=INPUT)
    assert "d.h5:/a is 3x4 but d.h5:/b is 4x3" in text
    text = h5mat("diff", "d.h5:/x", "none.h5:/y", code=INPUT)
    assert 'no dataset "/x"' in text and "none.h5: no such file" in text
    h5mat("diff", "d.h5:/a", code=USAGE)
    h5mat("diff", "d.h5:/a", "d.h5:/b", "d.h5:/c", code=USAGE)
    h5mat("diff", "d.h5:/a", "d.h5:/b", "--tol", "-1", code=USAGE)
    h5mat("diff", "d.h5:/a", "d.h5:/b", "--tol", "nan", code=USAGE)


# the program


def test_help_and_version():
    assert "gen" in h5mat("--help") and "--rows" in h5mat("gen", "-h")
    assert re.match(r"h5mat \d\S* \(HDF5 \d", h5mat("--version"))
    h5mat(code=USAGE)
    assert '"make" is not a command' in h5mat("make", code=USAGE)
    h5mat("--wrong", code=USAGE)
