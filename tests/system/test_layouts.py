"""Operands in every layout that h5py can write."""
import os
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from cases import each
from launch import FAULTY, LARGE, WAYS, run
from matrices import (digest, multiply, operands, output_of, product, random, read, scalars, sparse,
                      whole, write)

M, N, K = 61, 47, 83
LIMITS = ["--gpu-memory", "40K", "--host-memory", "64M"]


def contiguous(file, name, matrix):
    file.create_dataset(name, data=matrix)


def chunked(file, name, matrix):
    file.create_dataset(name, data=matrix, chunks=(16, 7))


def filtered(file, name, matrix):
    file.create_dataset(name, data=matrix, chunks=(13, 32), compression="gzip", shuffle=True,
                        fletcher32=True)


def scaled(file, name, matrix):
    file.create_dataset(name, data=matrix, chunks=(13, 32), scaleoffset=0)


def row_chunks(file, name, matrix):
    file.create_dataset(name, data=matrix, chunks=(1, matrix.shape[1]), compression="gzip")


def one_chunk(file, name, matrix):
    file.create_dataset(name, data=matrix, chunks=matrix.shape, compression="gzip", shuffle=True)


def chunked_big_endian(file, name, matrix):
    file.create_dataset(name, data=matrix.astype(">f8"), chunks=(16, 7), compression="gzip")


def chunked_single(file, name, matrix):
    file.create_dataset(name, data=matrix.astype("f4"), chunks=(16, 7), shuffle=True)


def masked(file, name, matrix):
    """One chunk is stored without gzip, and one without any filter."""
    data = file.create_dataset(name, data=matrix, chunks=(16, 7), compression="gzip", shuffle=True)
    plain, shuffled = matrix[:16, :7].tobytes(), matrix[16:32, 7:14].tobytes()
    data.id.write_direct_chunk((0, 0), plain, filter_mask=3)
    shuffled = np.frombuffer(shuffled, "u1").reshape(-1, matrix.itemsize).T.tobytes()
    data.id.write_direct_chunk((16, 7), shuffled, filter_mask=2)


def resizable(file, name, matrix):
    file.create_dataset(name, data=matrix, maxshape=(None, None))


def big_endian(file, name, matrix):
    file.create_dataset(name, data=matrix.astype(">f8"))


def single(file, name, matrix):
    file.create_dataset(name, data=matrix.astype("f4"))


def compact(file, name, matrix):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space, kind = h5py.h5s.create_simple(matrix.shape), h5py.h5t.py_create(matrix.dtype)
    dataset = h5py.h5d.create(file.id, name.encode(), kind, space, plist)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(matrix))


def external_storage(file, name, matrix):
    halves = [(f"{file.filename}.{name}{i}", 64 * i, matrix.nbytes // 2) for i in range(2)]
    file.create_dataset(name, data=matrix, external=halves)


def virtual(file, name, matrix):
    path = f"{file.filename}.{name}.parts"
    layout, half = h5py.VirtualLayout(matrix.shape, matrix.dtype), matrix.shape[0] // 2
    with h5py.File(path, "w") as parts:
        for part, rows in {"upper": slice(0, half), "lower": slice(half, None)}.items():
            parts[part] = matrix[rows]
            layout[rows] = h5py.VirtualSource(parts[part])
    file.create_virtual_dataset(name, layout)


def soft_link(file, name, matrix):
    file[f"some/where/{name}_really"] = matrix
    file[name] = h5py.SoftLink(f"/some/where/{name}_really")


def external_link(file, name, matrix):
    path = f"{file.filename}.{name}"
    write(path, **{"there/matrix": matrix})
    file[name] = h5py.ExternalLink(os.path.basename(path), "/there/matrix")


def link_to_chunked(file, name, matrix):
    path = f"{file.filename}.{name}"
    with h5py.File(path, "w") as other:
        chunked(other, "matrix", matrix)
    file[name] = h5py.ExternalLink(path, "matrix")


# The layouts that are read by offset, as bytes or raw chunks, and those read by HDF5.
BY_OFFSET = [contiguous, soft_link, external_link, chunked, filtered, resizable, row_chunks,
             one_chunk, chunked_big_endian, masked]
BY_HDF5 = [big_endian, scaled, compact, external_storage, virtual, link_to_chunked]


def is_by_offset(source, *options):
    """Whether all operands can be read by offset, as --io buffered requires."""
    done = run("dgemm_ooc", source, "--io", "buffered", "--dry-run", *options)
    assert done.returncode in (0, 3), done.stderr
    if done.returncode:
        assert "cannot be read by offset" in done.stderr and "--io" in done.stderr
    return done.returncode == 0


@each("layout", BY_OFFSET + BY_HDF5)
def test_every_operand_in_this_layout(tmp_path, layout):
    source = tmp_path / "input.h5"
    a, b, c = whole((M, K)), whole((K, N), seed=1), whole((M, N), seed=2)
    with h5py.File(source, "w") as file:
        for name, matrix in {"A": a, "B": b, "C": c}.items():
            layout(file, name, matrix)
    multiply(source, *LIMITS, "--beta", 1)
    np.testing.assert_array_equal(read(output_of(source)), product(a, b, c, beta=1))
    assert is_by_offset(source, "--beta", 1) == (layout in BY_OFFSET)


@pytest.mark.parametrize("layouts", [(filtered, contiguous, big_endian),
                                     (contiguous, virtual, chunked)],
                         ids=lambda layouts: "-".join(x.__name__ for x in layouts))
def test_mixed_layouts_transposed_on_three_ranks(tmp_path, layouts):
    source = tmp_path / "input.h5"
    a, b, c = whole((K, M)), whole((N, K), seed=1), whole((M, N), seed=2)
    with h5py.File(source, "w") as file:
        for layout, name, matrix in zip(layouts, "ABC", (a, b, c)):
            layout(file, name, matrix)
    multiply(source, *scalars("TT", 2, -1), *LIMITS, ranks=3)
    np.testing.assert_array_equal(read(output_of(source)), product(a, b, c, "TT", 2, -1))


@pytest.mark.parametrize("layout", [single, chunked_single], ids=lambda layout: layout.__name__)
def test_float_file_as_double(tmp_path, layout):
    """Elements are converted when read: the product of the floats has double precision."""
    source = tmp_path / "input.h5"
    a, b = random((M, K)), random((K, N))
    with h5py.File(source, "w") as file:
        layout(file, "A", a)
        layout(file, "B", b)
    multiply(source, *LIMITS, "--type", "d")
    got = read(output_of(source))
    assert got.dtype == "f8"
    expected = a.astype("f4").astype("f8") @ b.astype("f4").astype("f8")
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2, 3])
@pytest.mark.parametrize("trans", ["NN", "NT", "TN", "TT"])
def test_chunks_leave_no_trace_in_the_bits(tmp_path, trans, ranks):
    """Tiles and slabs cut through the chunks, which are larger or smaller than a slot."""
    sources = [tmp_path / f"{name}.h5" for name in ("contiguous", "chunks", "rows")]
    a, b, c = operands(sources[0], 150, 130, 170, trans=trans)
    for source, shape in zip(sources[1:], [(48, 40), None]):
        with h5py.File(source, "w") as file:
            for name, matrix in {"A": a, "B": b, "C": c}.items():
                file.create_dataset(name, data=matrix, chunks=shape or (1, matrix.shape[1]),
                                    compression="gzip", shuffle=bool(shape), fletcher32=True)
    for source in sources:
        multiply(source, *scalars(trans, 1.5, -0.5), "--gpu-memory", "200K", ranks=ranks)
    results = [read(output_of(source)).tobytes() for source in sources]
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("trans", ["NN", "NT"])
def test_strips_wait_for_all_chunks_of_their_rows(tmp_path, trans):
    """A's panel comes in parts of two chunks of rows each, one behind the other along k, and is copied slowly: the
    first strip needs one that comes after one of the second strip's."""
    source, output = tmp_path / "input.h5", tmp_path / "C.h5"
    a, b, c = operands(tmp_path / "contiguous.h5", 150, 130, 170, trans=trans)
    with h5py.File(source, "w") as file:
        for name, matrix in {"A": a, "B": b, "C": c}.items():
            file.create_dataset(name, data=matrix, chunks=(48, 40), compression="gzip")
    done = run(FAULTY, source, *scalars(trans, 1.5, -0.5), "--tile", "32x130x48", "--gpu-memory", "200K", "-o", output,
               DGEMM_OOC_TEST_FAULTS="copy:delay%100")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(read(output), product(a, b, c, trans, 1.5, -0.5), rtol=1e-11, atol=1e-11)


def test_chunks_never_written(tmp_path):
    source, b = tmp_path / "input.h5", whole((K, N))
    a = np.full((M, K), 3.0)
    a[20:40, 30:50] = whole((20, 20))
    with h5py.File(source, "w") as file:
        data = file.create_dataset("A", (M, K), "f8", fillvalue=3, chunks=(9, 10), compression="gzip")
        data[20:40, 30:50] = a[20:40, 30:50]
        chunked(file, "B", b)
    multiply(source, *LIMITS)
    np.testing.assert_array_equal(read(output_of(source)), a @ b)
    assert is_by_offset(source)


def test_never_written_reads_as_its_fill_value(tmp_path):
    source, b = tmp_path / "input.h5", whole((K, N))
    with h5py.File(source, "w") as file:
        file.create_dataset("A", (M, K), "f8", fillvalue=3)
        contiguous(file, "B", b)
    multiply(source, *LIMITS)
    np.testing.assert_array_equal(read(output_of(source)), np.full((M, K), 3) @ b)
    assert not is_by_offset(source)


@pytest.mark.parametrize("layout", [contiguous, chunked], ids=["contiguous", "chunked"])
def test_behind_a_user_block(tmp_path, layout):
    source, a, b = tmp_path / "input.h5", whole((M, K)), whole((K, N))
    with h5py.File(source, "w", userblock_size=512) as file:
        layout(file, "A", a)
        layout(file, "B", b)
    with open(source, "r+b") as file:
        file.write(b"somebody's header".ljust(512, b"!"))
    before = digest(source)
    multiply(source, *LIMITS)
    np.testing.assert_array_equal(read(output_of(source)), a @ b)
    assert digest(source) == before


def test_fortran_order_needs_no_copy(tmp_path):
    """Fortran, MATLAB and Julia write in this order: h5py sees the transpose."""
    a, b = whole((M, K)), whole((K, N))
    source = write(tmp_path / "input.h5", A=np.asfortranarray(a).T, B=np.asfortranarray(b).T)
    multiply(source, *LIMITS, "--transa", "T", "--transb", "T")
    np.testing.assert_array_equal(read(output_of(source)), a @ b)


def test_swapped_operands_give_column_major_languages_their_product(tmp_path):
    """Such languages read their own A B, also with a transposition, as the README says."""
    a, b = whole((M, K)), whole((K, N))
    source = write(tmp_path / "input.h5", A=np.asfortranarray(a).T, B=np.asfortranarray(b).T,
                   D=np.asfortranarray(b.T).T)
    multiply(source, *LIMITS, "-a", "B", "-b", "A")
    np.testing.assert_array_equal(read(output_of(source)).T, a @ b)
    multiply(source, *LIMITS, "-f", "-a", "D", "-b", "A", "--transa", "T")  # op(D) = b
    np.testing.assert_array_equal(read(output_of(source)).T, a @ b)


@pytest.mark.parametrize("bounds", ["earliest", "latest"])
def test_format_versions(tmp_path, bounds):
    source, a, b = tmp_path / "input.h5", whole((M, K)), whole((K, N))
    with h5py.File(source, "w", libver=bounds) as file:
        contiguous(file, "A", a)
        chunked(file, "group/B", b)
    multiply(source, *LIMITS, "-b", "group/B")
    np.testing.assert_array_equal(read(output_of(source)), a @ b)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_every_way_gives_the_same_bits(tmp_path, dtype):
    source = tmp_path / "input.h5"
    write(source, A=random((M, K), dtype), B=random((K, N), dtype), C=random((M, N), dtype))
    results = []
    for mode in WAYS:
        report = multiply(source, *LIMITS, "--beta", 2.5, "--io", mode, "--force")
        ways = dict.fromkeys(["A", "B", "C0"], mode if mode in ("direct", "hdf5") else "buffered")
        assert report["io"] == {**ways, "C": mode if mode in ("direct", "mapped") else "buffered"}
        results.append(read(output_of(source)).tobytes())
    assert len(set(results)) == 1


def test_auto_leaves_to_the_page_cache_what_is_read_often(tmp_path):
    source = sparse(tmp_path / "input.h5", "A", (40000, 1000), "f8")
    write(source, B=whole((1000, 8)))
    once, often = (multiply(source, "--tile", f"4000x{cols}x496", "--host-memory", "64M",
                            "--force")["io"] for cols in (8, 1))  # too little to cache A's panels
    if once["A"] == "buffered":
        pytest.skip("a file system in memory, or one that refuses direct I/O")
    assert once == {"A": "direct", "B": "buffered", "C": "buffered"}
    assert often == dict.fromkeys("ABC", "buffered")


def room_for(folder, file_bytes, what):
    if shutil.disk_usage(folder).free < file_bytes + (1 << 30):
        pytest.skip(f"too little disk for {what}: {file_bytes >> 30} GiB")


ROWS, COLS = (1 << 16) + 3, (1 << 15) + 5  # more than 2^31 elements, more than 8 GiB of floats


@pytest.fixture
def holes(tmp_path):
    """A folder where holes are read quickly: a file system in memory stores no pages for them."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
    else:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)


@pytest.mark.parametrize("trans, options", [("N", ["--tile", f"512x1x{COLS}"]), ("T", ["--tile", "4112x1x4096"])])
def test_more_than_2_to_31_elements_in_a(holes, trans, options):
    """The matrix is sparse on disk: only its last rows, beyond 2^31 elements and 4 GiB, have data.  If it is
    transposed they are two of three steps of the last slab: among more steps, the check would find too little."""
    source, last = holes / "input.h5", whole((2, COLS), "f4")
    sparse(source, "A", (ROWS, COLS), "f4")
    with h5py.File(source, "a") as file:
        file["A"][-2:] = last
        file["B"] = b = whole((ROWS if trans == "T" else COLS, 1), "f4", seed=1)
    assert os.stat(source).st_blocks * 512 < 1 << 28
    report = multiply(source, "--transa", trans, "--host-memory", "512M", *options)
    assert report["plan"]["read_bytes"] > 1 << 33
    if trans == "T":
        expected = last.T.astype("f8") @ b[-2:]
    else:
        expected = np.zeros((ROWS, 1))
        expected[-2:] = last.astype("f8") @ b
    np.testing.assert_array_equal(read(output_of(source)), expected)


@pytest.mark.skipif(not LARGE, reason="writes 8 GiB: set DGEMM_OOC_TEST_LARGE=1")
def test_more_than_2_to_31_elements_in_c(tmp_path):
    room_for(tmp_path, 4 * ROWS * COLS, "C")
    a, b = whole((ROWS, 1), "f4"), whole((1, COLS), "f4")
    source = write(tmp_path / "input.h5", A=a, B=b)
    multiply(source, "--host-memory", "256M")
    with h5py.File(output_of(source)) as file:
        for start in range(0, ROWS, 4096):
            rows = slice(start, start + 4096)
            np.testing.assert_array_equal(file["C"][rows], a[rows] * b)
    output_of(source).unlink()
