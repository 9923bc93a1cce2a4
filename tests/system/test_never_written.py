"""Elements that were never written have the dataset's fill value, or zero, by every read method, and not the
previous contents of memory."""
import h5py
import numpy as np
import pytest

from launch import run
from matrices import multiply, output_of, random, read, write

SHAPE = (150, 140)
B = random((140, 90))


def unwritten(path, dtype, when, fill=None, chunks=None):
    """A dataset A without written elements, or, if chunked, with only the top chunk written."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_fill_time(when)
    if fill is not None:
        plist.set_fill_value(np.array(fill, dtype))
    if chunks:
        plist.set_chunk(chunks)
    with h5py.File(path, "a") as file:
        a = h5py.Dataset(h5py.h5d.create(file.id, b"A", h5py.h5t.py_create(np.dtype(dtype)),
                                         h5py.h5s.create_simple(SHAPE), plist))
        expected = np.full(SHAPE, fill or 0, "f8")
        if chunks:
            a[:20, :30] = expected[:20, :30] = 3
    return expected


NEVER, IFSET = h5py.h5d.FILL_TIME_NEVER, h5py.h5d.FILL_TIME_IFSET


@pytest.mark.parametrize("how", [("f8", NEVER), ("i4", NEVER), ("f8", NEVER, 5), (">f4", NEVER),
                                 ("i8", NEVER, 5, (20, 30)), ("f8", NEVER, None, (20, 30)),
                                 ("i2", IFSET, 5)], ids=str)
def test_the_same_bits_whatever_the_memory_held(tmp_path, how):
    source = write(tmp_path / "input.h5", B=B)
    a = unwritten(source, *how)
    ways = [("64x48x32", "auto", 0), ("50x90x140", "hdf5", 0), ("64x48x32", "hdf5", 3)]
    results = set()
    for tile, way, ranks in ways:
        multiply(source, "--type", "d", "--tile", tile, "--io", way, "--force", ranks=ranks)
        c = read(output_of(source))
        np.testing.assert_allclose(c, a @ B, rtol=1e-12, atol=1e-12)
        results.add(c.tobytes())
    assert len(results) == 1
    done = run("dgemm_ooc", source, "--type", "d", "--check-only")
    assert done.returncode == 0, done.stdout + done.stderr
