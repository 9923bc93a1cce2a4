"""The product agrees with NumPy's for any type, transposes, scalars, sizes, limits and ranks."""
import itertools
import re

import h5py
import numpy as np
import pytest

from cases import each
from launch import GPU, run
from matrices import (bound, is_out_of_core, multiply, operands, oriented, output_of, product,
                      random, read, scalars, whole, write)

TYPES = ["f4", "f8"]
TRANSPOSES = ["NN", "NT", "TN", "TT"]
SCALARS = [(1, 0), (2.5, -0.5), (0, 2), (1, 1), (-1, 0)]
# So little memory that a product of 97 x 101 x 211 needs several super-blocks and slabs.  With this tile it
# also drains in several strips (the planner prefers thin ones for some transposes).
TINY = ["--gpu-memory", "40K", "--host-memory", "16M"]
STRIPS = ["--gpu-memory", "104K", "--host-memory", "16M", "--tile", "96x48x16"]
OUT_OF_CORE = (97, 101, 211)


def assert_is_product(source, dtype, a, b, c, **problem):
    """Elements agree within the rounding error bound."""
    got, expected = read(output_of(source)), product(a, b, c, **problem)
    assert got.dtype == dtype and got.shape == expected.shape
    error = np.abs(got - expected)
    assert (error <= bound(a, b, c, eps=np.finfo(dtype).eps, **problem)).all(), error.max()


def assert_is_exact(source, dtype, a, b, c, **problem):
    expected = product(a, b, c, **problem).astype(dtype)
    assert read(output_of(source)).tobytes() == expected.tobytes()


@pytest.mark.singly
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("trans", TRANSPOSES)
@pytest.mark.parametrize("alpha, beta", SCALARS)
def test_every_kind_out_of_core(tmp_path, device, dtype, trans, alpha, beta):
    source, problem = tmp_path / "input.h5", dict(trans=trans, alpha=alpha, beta=beta)
    matrices = operands(source, *OUT_OF_CORE, dtype, trans)
    report = multiply(source, *scalars(**problem), *STRIPS, device=device)
    assert_is_product(source, dtype, *matrices, **problem)
    if alpha:
        assert is_out_of_core(report), report["plan"]


@pytest.mark.singly
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("alpha, beta", SCALARS)
def test_single_slab_by_strips(tmp_path, device, dtype, alpha, beta):
    """Strips of a tile are drained while those of the next tile, of another height, reuse their memory."""
    source, problem = tmp_path / "input.h5", dict(alpha=alpha, beta=beta)
    matrices = operands(source, 209, 101, 16, dtype, kind=whole)
    plan = multiply(source, *scalars(**problem), *STRIPS, device=device)["plan"]
    assert plan["super_blocks"] == [3, 3] and plan["slabs"] == (1 if alpha else 0)
    assert 1 < 96 / plan["strip_rows"] != (209 % 96) / plan["strip_rows"]
    assert_is_exact(source, dtype, *matrices, **problem)


SIZES = [(1, 1, 1), (1, 37, 5), (41, 1, 7), (1, 1, 53), (13, 17, 1), (31, 37, 41), (2, 3, 16),
         (65, 33, 129), (64, 64, 64), (16, 48, 257), (127, 1, 131), (1, 139, 17), (5, 3, 0),
         (1, 1, 0), (89, 83, 79), (15, 31, 33)]
KINDS = list(itertools.product(TYPES, TRANSPOSES, SCALARS))


@pytest.mark.singly
@pytest.mark.parametrize("size, kind", [  # 7 steps through the 40 kinds, so that each occurs in turn
    pytest.param(size, KINDS[7 * i % len(KINDS)], id="x".join(map(str, size)))
    for i, size in enumerate(SIZES)])
def test_ragged_sizes_exactly(tmp_path, device, size, kind):
    source, (dtype, trans, (alpha, beta)) = tmp_path / "input.h5", kind
    problem = dict(trans=trans, alpha=alpha, beta=beta)
    matrices = operands(source, *size, dtype, trans, whole)
    multiply(source, *scalars(**problem), *TINY, device=device)
    assert_is_exact(source, dtype, *matrices, **problem)


@pytest.mark.singly
@pytest.mark.parametrize("ranks, size, dtype, trans, alpha, beta", [
    (1, OUT_OF_CORE, "f8", "NN", 1, 0),
    (2, OUT_OF_CORE, "f4", "NT", 2.5, -0.5),
    (2, (1, 1, 1), "f8", "TN", 1, 1),
    (3, OUT_OF_CORE, "f8", "TT", 1, 1),
    (3, (131, 1, 37), "f4", "NN", -1, 0),
    (5, (197, 201, 111), "f4", "TN", -1, 0),
    (5, (127, 113, 103), "f8", "NT", 2.5, -0.5),
    (5, (2, 1, 9), "f4", "TT", 1, 0),  # more ranks than tiles
    (3, (3, 4, 0), "f8", "NN", 1, 2),
])
def test_ranks(tmp_path, device, ranks, size, dtype, trans, alpha, beta):
    source, problem = tmp_path / "input.h5", dict(trans=trans, alpha=alpha, beta=beta)
    matrices = operands(source, *size, dtype, trans, whole)
    report = multiply(source, *scalars(**problem), *TINY, ranks=ranks, device=device)
    assert report["machine"]["ranks"] == ranks
    if size == OUT_OF_CORE:
        assert report["plan"]["slabs"] > 1 and max(report["plan"]["super_blocks"]) > 1
    assert_is_exact(source, dtype, *matrices, **problem)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("ranks", [0, 3])
def test_c_is_not_read_when_beta_is_0(tmp_path, device, dtype, ranks):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 33, 35, 47, dtype, kind=whole)
    with h5py.File(source, "a") as file:
        file["C"][...] = np.nan
    multiply(source, ranks=ranks, device=device)
    assert_is_exact(source, dtype, a, b, None)


def test_c_may_be_absent_when_beta_is_0(tmp_path, device):
    a, b = whole((9, 5)), whole((5, 7))
    source = write(tmp_path / "input.h5", A=a, B=b)
    multiply(source, device=device)
    assert_is_exact(source, "f8", a, b, None)


@pytest.mark.pairwise
@pytest.mark.parametrize("trans", ["NN", "TT"])
@pytest.mark.parametrize("beta", [0, 1])
def test_nan_and_inf_travel_as_numpy_lets_them(tmp_path, device, trans, beta):
    a, b = (np.array(x.T if t == "T" else x)
            for x, t in zip((random((50, 64)), random((64, 45), seed=1)), trans))
    oriented(a, b, trans)[0][[3, 11, 12], [4, 63, 1]] = np.nan, np.inf, -np.inf
    oriented(a, b, trans)[1][[0, 17, 63], [44, 2, 0]] = np.inf, np.nan, -np.inf
    c = random((50, 45), seed=2)
    c[20, 20], c[30, 30] = np.nan, np.inf
    source = write(tmp_path / "input.h5", A=a, B=b, C=c)
    report = multiply(source, *scalars(trans, 1, beta), *TINY, device=device)
    expected = product(a, b, c, trans, 1, beta)
    np.testing.assert_allclose(read(output_of(source)), expected, rtol=1e-12, atol=1e-12)
    # 3 rows of A, and 3 columns of B that affect all rows
    assert report["elements_not_finite"] >= 3 * 45 and report["elements_not_judged"] == 0


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 2])
def test_alpha_0_leaves_beta_c_even_with_nan_in_a(tmp_path, device, ranks):
    a, b, c = np.full((21, 10), np.nan), whole((10, 19)), whole((21, 19))
    source = write(tmp_path / "input.h5", A=a, B=b, C=c)
    report = multiply(source, *scalars(alpha=0, beta=-3), ranks=ranks, device=device)
    assert_is_exact(source, "f8", a, b, c, alpha=0, beta=-3)
    assert report["plan"]["read_bytes"] == c.nbytes


def test_alpha_0_and_beta_0_give_zeros(tmp_path, device):
    source = write(tmp_path / "input.h5", A=np.full((6, 4), np.nan), B=np.full((4, 5), np.inf))
    multiply(source, "--alpha", 0, device=device)
    assert read(output_of(source)).tobytes() == np.zeros((6, 5)).tobytes()


def test_a_and_b_may_be_the_same_dataset(tmp_path):
    a = whole((40, 30))
    source = write(tmp_path / "input.h5", A=a)
    multiply(source, "-b", "A", "--transb", "T")
    assert_is_exact(source, "f8", a, a, None, trans="NT")


@pytest.mark.smoke
def test_output_says_where_it_comes_from(tmp_path):
    source = tmp_path / "input.h5"
    operands(source, 8, 9, 10)
    multiply(source, *scalars("NN", 2.5, -0.5))
    with h5py.File(tmp_path / "input-C.h5") as file:
        c = file["/C"]
        assert list(file) == ["C"] and c.chunks is None
        assert (c.attrs["alpha"], c.attrs["beta"]) == (2.5, -0.5)
        assert c.attrs["formula"] == "C = alpha A B + beta C0"
        assert c.attrs["A_file"] == c.attrs["B_file"] == str(source)
        assert (c.attrs["A_dataset"], c.attrs["B_dataset"]) == ("A", "B")
        assert (c.attrs["C0_file"], c.attrs["C0_dataset"]) == (str(source), "C")
        assert c.attrs["program"].startswith("dgemm_ooc ")


@pytest.mark.parametrize("name, dataset", [
    ("result.h5", "/C"), ("result.h5:/product", "/product"),
    ("result.h5:/a/deep/group/X", "/a/deep/group/X"),
])
def test_output_name(tmp_path, name, dataset):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 5, 6, 7, kind=whole)
    multiply(source, "-o", tmp_path / name)
    np.testing.assert_array_equal(read(tmp_path / "result.h5", dataset), a @ b)
    assert not output_of(source).exists()


@pytest.mark.smoke
def test_operands_by_name_and_from_other_files(tmp_path):
    a, b, c = whole((5, 6)), whole((6, 7)), whole((5, 7))
    source = write(tmp_path / "input.h5", left=a)
    right = write(tmp_path / "right.h5", **{"some/group/B": b})
    third = write(tmp_path / "third.h5", C=c)
    multiply(source, "-a", "left", "-b", f"{right}:/some/group/B", "-c", f"{third}:/C",
             "--beta", 1)
    assert_is_exact(source, "f8", a, b, c, beta=1)


def test_relative_paths(tmp_path):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 4, 5, 6, kind=whole)
    done = run("dgemm_ooc", source.name, "--report", "report.json", ranks=2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_is_exact(source, "f8", a, b, None)
    assert (tmp_path / "report.json").exists()


@pytest.mark.parametrize("options, alpha", [([], 2), (["--alpha", 3], 3)])
def test_environment_gives_way_to_the_command_line(tmp_path, options, alpha):
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 4, 5, 6, kind=whole)
    multiply(source, *options, DGEMM_OOC_ALPHA="2", DGEMM_OOC_TRANSA="")
    assert_is_exact(source, "f8", a, b, None, alpha=alpha)


@each("ranks, type_name, dtype, kinds", [
    (0, "d", "f8", ("f4", "f4")), (0, "d", "f8", ("f4", "f8")), (0, "d", "f8", ("i4", "u1")),
    (0, "s", "f4", ("f8", "f8")), (0, "s", "f4", ("f2", ">f8")), (0, "s", "f4", ("u2", "i8")),
    (3, "d", "f8", ("i8", "f4"))])
def test_type_converts(tmp_path, ranks, type_name, dtype, kinds):
    a, b = (np.abs(whole(shape, "f8")).astype(kind)
            for shape, kind in zip([(41, 50), (50, 43)], kinds))
    source = write(tmp_path / "input.h5", A=a, B=b)
    memory = "512K" if kinds == ("i4", "u1") else "40K"  # integers are multiplied as they are
    multiply(source, "--type", type_name, "--gpu-memory", memory, "--host-memory", "64M", ranks=ranks)
    assert_is_exact(source, dtype, a, b, None)


@pytest.mark.parametrize("options", [[], ["--no-bind"]], ids=["", "no-bind"])
def test_says_where_the_ranks_are(tmp_path, device, options):
    source = tmp_path / "input.h5"
    operands(source, 30, 20, 10)
    done = run("dgemm_ooc", source, *options, ranks=3, DGEMM_OOC_DEVICE=device)
    assert done.returncode == 0, done.stderr
    name = "NVIDIA .*" if GPU else "emulated"
    gpu = rf"{name} [0-9A-Fa-f:.]{{12}}, " if device == "gpu" else ""
    place = rf"{gpu}(NUMA [0-9,-]+, )?CPUs [0-9,-]+.*\n"
    table = re.search(rf"^Ranks +0 (\S+), {place}^ +1 \1, {place}^ +2 \1, {place}", done.stdout,
                      re.MULTILINE)
    assert table, done.stdout
    assert not options or "near the GPU" not in table[0]
