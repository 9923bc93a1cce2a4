"""Malicious files and names: no file but the output is written, links are followed only as the README says, and
claims of damaged or forged files are not trusted."""
import os
import re
import struct
import zlib

import h5py
import numpy as np
import pytest

from cases import each
from launch import run
from matrices import multiply, output_of, read, whole, write
from test_bad_input import INPUT, RESOURCES, assert_refused

A, B = whole((20, 30), seed=1), whole((30, 10), seed=2)


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "input.h5", A=A, B=B)


# Groups in groups.

@each("levels", [600, 3000, 30000])
@each("link", ["hard", "soft"])
def test_groups_that_are_nested_deep(tmp_path, levels, link):
    """Each was opened by its path, which took minutes for 3000; 30000 are more than the library's stack has."""
    source = write(tmp_path / "deep.h5", first=A)
    with h5py.File(source, "a", libver="latest") as file:
        group = file.create_group("g")
        for _ in range(levels):
            if link == "soft":
                group["A"] = h5py.SoftLink("/first")
            group = group.create_group("g")
        group["A"] = A
    says = "paths in it are longer than a name may be, and not all is listed"
    done = run("h5mat", "info", source, timeout=60)
    assert done.returncode == INPUT and done.stderr == f"h5mat: {source}: {says}\n"
    assert "/first: 20 x 30" in done.stdout
    said = assert_refused(tmp_path, source, says=['no dataset "A"; datasets here: '], complaints=2)
    assert says in said or ", ..." in said


def test_groups_as_deep_as_names_are_long(tmp_path):
    source, path = tmp_path / "deep.h5", "g/" * 254 + "A"
    write(source, **{path: A}, B=B)
    done = run("h5mat", "info", source)
    assert done.returncode == 0 and f"/{path}: 20 x 30" in done.stdout
    multiply(source, "-a", path)
    np.testing.assert_array_equal(read(output_of(source)), A @ B)


# Names that are longer than the system's, or than ours.

LONG = "n" * 300


@pytest.mark.parametrize("length", [511, 600, 60000])
def test_a_dataset_whose_name_is_too_long(tmp_path, length):
    """It ended the list, which said that groups are nested too deep."""
    source, says = write(tmp_path / "input.h5", A=A, **{"n" * length: A}, z=B), "paths in it are longer than a name may be"
    done = run("h5mat", "info", source)
    assert done.returncode == INPUT and says in done.stderr
    assert "/A: 20 x 30" in done.stdout and "/z: 30 x 10" in done.stdout and "nnn" not in done.stdout
    assert_refused(tmp_path, source, says=['no dataset "B"; datasets here: /A (f64 20x30), /z (f64 30x10); ' + says])
    multiply(source, "-b", "z")


@pytest.mark.parametrize("options, words, code", [
    (["-o", f"{LONG}/c.h5"], f"the path {LONG[:60]}... has a folder whose name is too long", INPUT),
    (["-o", f"{LONG}.h5"], f"the name {LONG[:60]}... is too long: it may have 237 characters here", INPUT),
    (["--report", f"{LONG}.json"], f"the name {LONG[:60]}... is too long: it may have 248 characters here", INPUT),
    (["--html", f"{LONG}/x.html"], f"the path {LONG[:60]}... has a folder whose name is too long", INPUT),
    (["-a", f"{LONG}.h5:/A"], "cannot be opened: File name too long", INPUT),
    (["-a", "n" * 5000 + ".h5:/A"], "the name nnn", 2),
    (["-a", "n" * 512], f"the dataset name {LONG[:40]}... is too long", 2),
    (["-o", "c.h5:/" + "n" * 600], f"the dataset name /{LONG[:39]}... is too long", 2)], ids=range(8))
def test_names_of_the_command_line(source, options, words, code):
    said = assert_refused(source.parent, source, *options, code=code, says=[words], cwd=source.parent)
    assert len(said) < 600


def test_long_names_in_a_file(source):
    with h5py.File(source, "a", libver="latest") as file:
        file["A"].attrs["x" * 60000] = file.attrs["y" * 60000] = "z" * 60000
    multiply(source)
    with h5py.File(source, "a", libver="latest") as file:
        file["soft"], file["external"] = h5py.SoftLink("/" + "s" * 3000), h5py.ExternalLink("e" * 3000 + ".h5", "A")
        for name, names in ("v", ("v" * 5000, "A")), ("w", (str(source), "w" * 5000)):
            layout = h5py.VirtualLayout((20, 30), "f8")
            layout[:] = h5py.VirtualSource(*names, (20, 30))
            file.create_virtual_dataset(name, layout)
    for name, words in {"soft": f'"soft", a link to /{"s" * 99}, cannot be opened',
                        "external": f'"external", a link to {"e" * 100}:A, cannot be opened',
                        "v": '"v" has a source whose name is too long', "w": '"w" has a source whose name is too long'}.items():
        said = assert_refused(source.parent, source, "-a", name, "--force", says=[words])
        assert len(said) < 1200


# Names that lead to other files.

@pytest.mark.parametrize("options", [[], ["--force"]])
def test_a_symlink_in_the_output_s_place_is_not_followed(source, options):
    victim = source.with_name("victim")
    victim.write_text("precious")
    part = source.with_name("input-C.h5.part")
    part.symlink_to(victim)
    assert_refused(source.parent, source, *options, says=["is a symbolic link; remove it"])
    assert victim.read_text() == "precious" and part.is_symlink()


def test_a_dangling_symlink_in_the_output_s_place_makes_no_file(source):
    source.with_name("input-C.h5.part").symlink_to(source.with_name("new"))
    assert_refused(source.parent, source, says=["is a symbolic link"])
    assert not source.with_name("new").exists()


@pytest.mark.parametrize("how", ["symlink_to", "hardlink_to"])
def test_a_link_that_is_the_output_is_replaced_and_not_written_through(source, how):
    victim = write(source.with_name("victim"), C=A)
    getattr(output_of(source), how)(victim)
    multiply(source, "--force")
    assert (read(victim) == A).all() and not output_of(source).is_symlink()
    np.testing.assert_array_equal(read(output_of(source)), A @ B)


def test_a_hard_link_in_the_part_s_place_is_not_written_through(source):
    victim = source.with_name("victim")
    victim.write_text("precious")
    source.with_name("input-C.h5.part").hardlink_to(victim)
    multiply(source)
    assert victim.read_text() == "precious"


@pytest.mark.singly
@pytest.mark.parametrize("name, says", [
    ("input-C.h5.part", "no run left it"), ("input-C.h5.part.sums0", "no run left it"),
    ("input-C.h5.part.sums1", "no run left it"), ("input-C.h5.journal", "is no journal of a run")])
@pytest.mark.parametrize("options", [[], ["--force"], ["--restart", "never"]], ids="".join)
def test_a_file_of_the_user_in_the_place_of_one_of_the_run_s(source, name, says, options):
    """Browsers name unfinished downloads .part, too."""
    source.with_name(name).write_text("precious")
    assert_refused(source.parent, source, *options, says=[says, "remove it"])
    assert source.with_name(name).read_text() == "precious"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_the_part_s_place(source, make):
    part = source.with_name("input-C.h5.part")
    make(part)
    done = run("dgemm_ooc", source, timeout=60)
    assert (done.returncode == 0) == output_of(source).exists() == (not part.exists())


@pytest.mark.parametrize("name", ["out.h5.part", "alias.h5.part"])
def test_the_part_is_an_input(tmp_path, name):
    """The part file may be left from a killed run: it would be removed before it was read."""
    source = write(tmp_path / "out.h5.part", A=A, B=B)
    if name != source.name:
        (tmp_path / name).hardlink_to(source)
    output = tmp_path / name.removesuffix(".part")
    assert_refused(tmp_path, source, "-o", output, says=["the temporary name of C", "--output"])


LINKS = {
    "external link": lambda file, other: file.__setitem__("A", h5py.ExternalLink("other.h5", "A")),
    "link to chunks": lambda file, other: file.__setitem__("A", h5py.ExternalLink("other.h5", "K")),
    "virtual": lambda file, other: virtual(file, "other.h5"),
    "external storage": lambda file, other: file.create_dataset(
        "A", A.shape, "f8", external=[(str(other.with_suffix(".raw")), 0, A.nbytes)]),
}


def virtual(file, name):
    layout = h5py.VirtualLayout(A.shape, "f8")
    layout[:] = h5py.VirtualSource(name, "A", A.shape)
    file.create_virtual_dataset("A", layout)


@pytest.fixture(params=LINKS)
def linked(tmp_path, request):
    """An input whose A is in another file; returns both files."""
    other = write(tmp_path / "other.h5", A=A)
    with h5py.File(other, "a") as file:
        file.create_dataset("K", data=A, chunks=(7, 8))
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file["B"] = B
        LINKS[request.param](file, other)
    if request.param != "external storage":
        return tmp_path / "input.h5", other
    A.tofile(other.with_suffix(".raw"))
    return tmp_path / "input.h5", other.with_suffix(".raw")


def test_links_are_followed(linked):
    source, _ = linked
    multiply(source)
    np.testing.assert_array_equal(read(output_of(source)), A @ B)


def test_what_an_input_leads_to_is_an_input(linked):
    source, other = linked
    assert_refused(source.parent, source, "-o", other, "--force", says=["is one of the inputs"])
    assert_refused(source.parent, source, "--report", other, says=["is one of the inputs"])
    part = other.rename(other.with_name(other.name + ".part"))
    other.symlink_to(part)
    assert_refused(source.parent, source, "-o", other, "--force", complaints=2,
                   says=["is one of the inputs", "the temporary name of C"])


def test_links_in_a_circle(tmp_path):
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file["A"], file["C"], file["B"] = h5py.SoftLink("/C"), h5py.SoftLink("/A"), B
        file["g/up"] = h5py.SoftLink("/")
    assert_refused(tmp_path, tmp_path / "input.h5", says=['"A"'])
    done = run("h5mat", "info", tmp_path / "input.h5", timeout=60)
    assert "/B: 30 x 10" in done.stdout


# Datasets that are not matrices.

@each("kind", [h5py.ref_dtype, h5py.regionref_dtype, h5py.string_dtype(),
               np.dtype([("x", "f8")]), h5py.enum_dtype({"a": 1}), "V8",
               h5py.vlen_dtype("f8")])
def test_elements_that_are_no_numbers(tmp_path, kind):
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.create_dataset("A", (20, 30), kind)
        file["B"] = B
    assert_refused(tmp_path, tmp_path / "input.h5",
                   says=['"A" holds', "; store it"])


# Forged headers.

def patch(path, old, new, times=1):
    data = path.read_bytes()
    assert data.count(old) == times, data.count(old)
    path.write_bytes(data.replace(old, new))


def address_of(path, name="A"):
    with h5py.File(path) as file:
        return file[name].id.get_offset()


@pytest.mark.parametrize("address", [1 << 40, (1 << 63) - 8, 1 << 63, (1 << 64) - 4800, (1 << 64) - 16])
def test_data_at_an_address_beyond_the_file(source, address):
    patch(source, struct.pack("<QQ", address_of(source), A.nbytes), struct.pack("<QQ", address, A.nbytes))
    assert_refused(source.parent, source, says=["input.h5"])


@pytest.mark.parametrize("rows, cols", [(1 << 61, 30), ((1 << 64) - 1, 1), (1 << 32, 1 << 32),
                                        (1 << 50, 30), (0, 30), (21, 30)])
def test_extents_that_are_made_up(source, rows, cols):
    """The header has the extents twice: the current and the maximum ones."""
    patch(source, struct.pack("<QQQQ", 20, 30, 20, 30), struct.pack("<QQQQ", rows, cols, rows, cols))
    done = run("dgemm_ooc", source, timeout=60)
    assert done.returncode in (INPUT, RESOURCES), done.stderr
    assert os.listdir(source.parent) == ["input.h5"]


def test_a_header_that_has_less_than_it_claims(tmp_path):
    """The elements of a compact dataset are in its header."""
    source = write(tmp_path / "input.h5", B=B)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    with h5py.File(source, "a") as file:
        data = h5py.h5d.create(file.id, b"A", h5py.h5t.NATIVE_DOUBLE,
                               h5py.h5s.create_simple((2, 30)), plist)
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(A[:2]))
    patch(source, struct.pack("<QQQQ", 2, 30, 2, 30), struct.pack("<QQQQ", 9000, 30, 9000, 30))
    assert_refused(tmp_path, source, says=["480 bytes of storage for 2160000"])


def test_very_many_rows_of_nothing(tmp_path):
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.create_dataset("A", (1 << 50, 0), "f8", chunks=(1, 1), maxshape=(None, None))
        file.create_dataset("B", (0, 1), "f8", chunks=(1, 1), maxshape=(None, None))
    done = run("dgemm_ooc", tmp_path / "input.h5", timeout=60)
    assert done.returncode == RESOURCES and "C needs 8.00 PiB" in done.stderr
    done = run("h5mat", "diff", *2 * [f"{tmp_path / 'input.h5'}:/A"], timeout=60)
    assert done.returncode == 0, done.stderr


def chunked(path, **how):
    with h5py.File(path, "w") as file:
        file["B"] = B
        data = file.create_dataset("A", A.shape, "f8", chunks=A.shape, **how)
        data[:] = A
        return data.id.get_chunk_info(0)


@each("size", [1, 4799, 4801, 1 << 31, (1 << 32) - 1])
@each("filters", [{}, {"shuffle": True}, {"compression": "gzip"}])
def test_a_chunk_of_another_size(tmp_path, size, filters):
    """A chunk's key in the B-tree has its size, filter mask and offsets."""
    source = tmp_path / "input.h5"
    info = chunked(source, **filters)
    patch(source, struct.pack("<IIQQQQ", info.size, 0, 0, 0, 0, info.byte_offset),
          struct.pack("<IIQQQQ", size, 0, 0, 0, 0, info.byte_offset))
    done = run("dgemm_ooc", source)
    if filters or done.returncode:
        assert done.returncode == INPUT, done.stdout + done.stderr
    else:  # the claimed size does not matter
        np.testing.assert_array_equal(read(output_of(source)), A @ B)


@pytest.mark.parametrize("address", [1 << 40, (1 << 63) - 8, (1 << 64) - 4800])
def test_a_chunk_at_an_address_beyond_the_file(tmp_path, address):
    source = tmp_path / "input.h5"
    info = chunked(source)
    patch(source, struct.pack("<IIQQQQ", info.size, 0, 0, 0, 0, info.byte_offset),
          struct.pack("<IIQQQQ", info.size, 0, 0, 0, 0, address))
    assert_refused(tmp_path, source, says=["input.h5"])


def test_a_chunk_that_inflates_to_far_more(tmp_path):
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file["B"] = B
        data = file.create_dataset("A", A.shape, "f8", chunks=A.shape, compression="gzip")
        data.id.write_direct_chunk((0, 0), zlib.compress(bytes(1 << 20)))
    assert_refused(tmp_path, source, says=["is damaged", "more than a chunk"])


# Names with terminal control sequences.

ESCAPE = "\x1b]0;owned\x07\nRESULT C complete"


def test_names_that_steer_a_terminal(tmp_path):
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file[ESCAPE], file["B"] = A, B
    done = run("dgemm_ooc", tmp_path / "input.h5")
    assert done.returncode == INPUT and "?]0;owned??RESULT" in done.stderr
    listed = run("h5mat", "info", tmp_path / "input.h5")
    shown = run("dgemm_ooc", tmp_path / "input.h5", "-a", ESCAPE, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    for text in done.stderr, listed.stdout, shown.stdout:
        assert not re.search(r"[^\n\x20-\x7e]|^RESULT", text, re.MULTILINE), text


@each("text", ['{"device": 1}', '{"device": null}', '{"name": 1}', '{"ranks": 1e9}',
                                  '{"device": "cpu", "disk_read_bytes_per_s": 1e-300}', "[" * 100000,
                                  '{"threads": 99999999999999999999}', '{"": 1}', "null", ""])
def test_machine_files(source, text):
    machine = source.with_suffix(".json")
    machine.write_text(text)
    done = run("dgemm_ooc", source, "--dry-run", "--machine", machine, timeout=60)
    assert done.returncode in (0, 2), done.stdout + done.stderr


# Links of an input to something other than a file, or back to the input.

def virtual_of(file, name, *sources, shape=A.shape):
    """A virtual dataset that concatenates the (file, dataset) sources."""
    layout = h5py.VirtualLayout(shape, "f8")
    for source, dataset in sources:
        layout[:] = h5py.VirtualSource(source, dataset, shape)
    file.create_virtual_dataset(name, layout)


SPECIAL = {
    "external link": lambda file, other: file.__setitem__("A", h5py.ExternalLink(other, "A")),
    "in a group behind one": lambda file, other: file.__setitem__("A", h5py.ExternalLink(other, "g/A")),
    "virtual": lambda file, other: virtual_of(file, "A", (other, "A")),
    "virtual of a link": lambda file, other: (file.__setitem__("L", h5py.ExternalLink(other, "A")),
                                              virtual_of(file, "A", (".", "L"))),
    "virtual of virtual": lambda file, other: (virtual_of(file, "V", (other, "A")),
                                               virtual_of(file, "A", (".", "V"))),
    "external storage": lambda file, other: file.create_dataset(
        "A", A.shape, "f8", external=[(other, 0, A.nbytes)]),
    "virtual of external": lambda file, other: (
        file.create_dataset("E", A.shape, "f8", external=[(other, 0, A.nbytes)]),
        virtual_of(file, "A", (".", "E"))),
}


@pytest.mark.parametrize("kept", [0, A.nbytes - 1])
def test_external_storage_that_is_too_short(tmp_path, kept):
    """The library would read zeros."""
    other = tmp_path / "other"
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.create_dataset("A", A.shape, "f8", external=[(str(other), 0, A.nbytes)])
        file["B"] = B
    other.write_bytes(A.tobytes()[:kept])
    assert_refused(tmp_path, tmp_path / "input.h5", says=["has an external file that is too short", "other"])
    other.write_bytes(A.tobytes())
    multiply(tmp_path / "input.h5")


@pytest.mark.parametrize("gone", ["file", "dataset", "dataset of the same file"])
def test_a_virtual_dataset_whose_source_is_gone(tmp_path, gone):
    """The library would read zeros."""
    other = "." if "same" in gone else "other.h5"
    with h5py.File(tmp_path / "input.h5", "w") as file:
        virtual_of(file, "A", (other, "S"))
        file["B"] = B
    if gone == "dataset":
        write(tmp_path / "other.h5", T=A)
    says = f"has a source that does not exist: {other}:/S"
    assert_refused(tmp_path, tmp_path / "input.h5", says=[says])


@each("how", SPECIAL)
@each("what", ["pipe", "/dev/zero"])
def test_what_is_led_to_is_no_file(tmp_path, how, what):
    """Opening a pipe would block forever."""
    source, other = tmp_path / "input.h5", "/dev/zero"
    if what == "pipe":
        os.mkfifo(tmp_path / "other")
        other = str(tmp_path / "other") if "external" in how else "other"
    with h5py.File(source, "w") as file:
        file["B"] = B
        SPECIAL[how](file, other)
    before = os.listdir(tmp_path)
    for program, *args in ("dgemm_ooc", source), ("h5mat", "info", source), ("h5mat", "info", f"{source}:/A"):
        done = run(program, *args, timeout=20)
        listed = program == "h5mat" and args[1] == source  # the list omits datasets that cannot be opened
        if not (listed and done.returncode == 0 and "/A" not in done.stdout):
            said = done.stdout if listed else done.stderr
            assert "device or pipe" in said and other in said, done.stdout + done.stderr
            assert done.returncode == (0 if listed else INPUT)
    assert os.listdir(tmp_path) == before


def itself(folder, file):
    virtual_of(file, "A", (".", "A"))
    return "input.h5:/A, from", "input.h5:/A"


def through_another_name(folder, file):
    virtual_of(file, "A", (".", "alias"))
    file["alias"] = h5py.SoftLink("/A")
    return "input.h5:/alias, from",


def two_of_each_other(folder, file):
    virtual_of(file, "A", (".", "V"))
    virtual_of(file, "V", ("input.h5", "A"))
    return "input.h5:/V", "input.h5:/A"


def through_other_files(folder, file):
    virtual_of(file, "A", ("second.h5", "V"))
    with h5py.File(folder / "second.h5", "w") as second, h5py.File(folder / "third.h5", "w") as third:
        virtual_of(second, "V", ("third.h5", "W"))
        third["W"] = h5py.ExternalLink("input.h5", "A")
    return "second.h5:/V", "third.h5:/W"


def by_the_number_of_a_block(folder, file):
    """The source name contains %b; the blocks before the self-reference are valid."""
    file["V0"], file["V1"] = A[:10], A[:10]
    whole, block = h5py.h5s.create_simple((20, 30), (h5py.h5s.UNLIMITED, 30)), h5py.h5s.create_simple((10, 30))
    whole.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (10, 30), (10, 30))
    for name in b"A", b"V2":
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.VIRTUAL)
        plist.set_virtual(whole, b".", b"V%b", block)
        h5py.h5d.create(file.id, name, h5py.h5t.NATIVE_DOUBLE, whole, plist)
    return "input.h5:/V2, from",


@pytest.mark.parametrize("circle", [itself, through_another_name, two_of_each_other, through_other_files,
                                    by_the_number_of_a_block])
def test_virtual_datasets_of_themselves(tmp_path, circle):
    """The library would recurse until the stack overflows."""
    source = tmp_path / "input.h5"
    with h5py.File(source, "w", libver="latest") as file:
        file["B"] = B
        words = circle(tmp_path, file)
    assert_refused(tmp_path, source, says=["is a virtual dataset of itself", *words])
    done = run("h5mat", "diff", f"{source}:/A", f"{source}:/A", timeout=20)
    assert done.returncode == INPUT and "is a virtual dataset of itself" in done.stderr
    done = run("h5mat", "info", source, timeout=20)
    assert done.returncode == 0 and "is a virtual dataset of itself" in done.stdout and "/B: 30 x 10" in done.stdout


def test_virtual_datasets_in_too_many_layers(tmp_path):
    """Each maps the previous one twice, so it would be read exponentially often."""
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file["V0"], file["B"] = A, B
        for i in range(1, 31):
            virtual_of(file, f"V{i}", (".", f"V{i - 1}"), (".", f"V{i - 1}"))
        file["A"] = h5py.SoftLink("/V30")
    assert_refused(tmp_path, source, says=["virtual sources"])  # after 2^16 of them, which take a while
    multiply(source, "-a", "V4")
    np.testing.assert_array_equal(read(output_of(source)), A @ B)


def test_a_source_that_is_drawn_from_twice_is_no_circle(tmp_path):
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file["V"], file["B"] = A[:10], B
        layout = h5py.VirtualLayout(A.shape, "f8")
        layout[:10] = layout[10:] = h5py.VirtualSource(".", "V", (10, 30))
        file.create_virtual_dataset("A", layout)
    multiply(source)
    np.testing.assert_array_equal(read(output_of(source)), np.vstack([A[:10], A[:10]]) @ B)


def test_an_external_file_that_is_not_there(tmp_path):
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file["B"] = B
        file.create_dataset("A", A.shape, "f8", external=[("gone.raw", 0, A.nbytes)])
    assert_refused(tmp_path, source, says=["has an external file that does not exist: gone.raw"])


def test_external_links_in_a_circle(tmp_path):
    with h5py.File(tmp_path / "input.h5", "w") as file, h5py.File(tmp_path / "other.h5", "w") as other:
        file["A"], file["B"], other["A"] = h5py.ExternalLink("other.h5", "A"), B, \
            h5py.ExternalLink("input.h5", "A")
    assert_refused(tmp_path, tmp_path / "input.h5", says=["too many links"], timeout=60)


def large_float(size):
    kind = h5py.h5t.IEEE_F64LE.copy()
    kind.set_size(size)
    return kind


@pytest.mark.parametrize("size", [17, 65288])
def test_elements_larger_than_any_number(tmp_path, size):
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file["B"] = B
        space = h5py.h5s.create_simple((4, 30))
        for name in b"A", b"W":
            h5py.h5d.create(file.id, name, large_float(size), space)
        virtual_of(file, "V", (".", "W"), shape=(4, 30))
    for name in "A", "V":
        assert_refused(tmp_path, source, "-a", name, "--type", "d", says=["more bytes than any number"])
        done = run("h5mat", "info", f"{source}:/{name}", timeout=20)
        assert done.returncode == INPUT
