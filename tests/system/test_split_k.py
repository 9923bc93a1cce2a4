"""The K split: layers of ranks multiply their own parts of k and add them along a tree.  The bits are those of
the parts' products added in that order, for any grid, nodes and limits."""
import json

import h5py
import numpy as np
import pytest

from launch import run
from matrices import bound, multiply, operands, output_of, product, random, read, sparse, write

M, N, K, QUANTUM = 203, 150, 997, 16


def layer_edges(layers, k=K):
    part = -(-(-(-k // layers)) // QUANTUM) * QUANTUM
    return [min(i * part, k) for i in range(layers + 1)]


def tree(parts):
    """The sums are 0 += 1, 2 += 3, then 0 += 2 and so on."""
    step = 1
    while step < len(parts):
        for i in range(0, len(parts) - step, 2 * step):
            parts[i] = parts[i] + parts[i + step]
        step *= 2
    return parts[0]


@pytest.fixture(scope="module", params=["f8", "f4"])
def problem(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("split")
    operands(folder / "input.h5", M, N, K, request.param)
    a, b = (read(folder / "input.h5", name) for name in "AB")

    def sum_of(layers):
        edges, parts = layer_edges(layers), []
        for first, end in zip(edges, edges[1:]):
            (folder / "part.h5").unlink(missing_ok=True)
            write(folder / "part.h5", A=a[:, first:end], B=b[first:end])
            multiply(folder / "part.h5", "--force")
            parts.append(read(output_of(folder / "part.h5")))
        return tree(parts)
    return folder / "input.h5", {layers: sum_of(layers) for layers in (2, 3, 4, 6, 8)}


@pytest.mark.pairwise
@pytest.mark.parametrize("ranks, layers, node", [
    (2, 2, 2), (2, 2, 1), (3, 3, 3), (4, 2, 4), (4, 2, 2), (4, 2, 1), (4, 4, 2), (6, 2, 3),
    (6, 3, 2), (6, 3, 1), (6, 6, 6), (8, 4, 4), (8, 8, 8)])
def test_the_sum_of_the_parts(problem, device, ranks, layers, node):
    source, sums = problem
    output = source.with_name("C.h5")
    report = multiply(source, "--split-k", layers, "-o", output, "--force", ranks=ranks,
                      device=device, DGEMM_OOC_TEST_NODE=str(node))
    plan, stages = report["plan"], report["stages"]
    assert plan["layers"] == layers and plan["super_blocks"] == [1, 1]
    assert np.array_equal(read(output), sums[layers])
    assert stages["read"]["bytes"] == plan["read_bytes"]
    assert stages["network"]["bytes"] == plan["sent_bytes"]
    assert stages["in"]["bytes"] == plan["in_bytes"]
    assert report["residual"] > 0


@pytest.mark.pairwise
@pytest.mark.parametrize("grid", ["1x4", "4x1", "2x2", "1x3", "1x1"])
@pytest.mark.parametrize("limits", [[], ["--gpu-memory", "500K", "--host-memory", "12M"]])
def test_any_grid(problem, grid, limits):
    """In some grids, ranks of a layer have no work."""
    source, sums = problem
    output = source.with_name("grid.h5")
    multiply(source, "--split-k", 2, "--grid", grid, *limits, "-o", output, "--force", ranks=8,
             DGEMM_OOC_TEST_NODE="2")
    assert np.array_equal(read(output), sums[2])


@pytest.mark.parametrize("trans", ["NN", "NT", "TN", "TT"])
def test_alpha_and_beta_once(tmp_path, trans):
    """Only the first layer reads and adds C0."""
    source = tmp_path / "input.h5"
    a, b, c = operands(source, M, N, K, "f8", trans)
    multiply(source, "--alpha", "1.7", "--beta", "-0.3", "--transa", trans[0], "--transb", trans[1],
             "--split-k", 4, ranks=4)
    expected = product(a, b, c, trans, 1.7, -0.3)
    assert np.all(abs(read(output_of(source)) - expected) <= bound(a, b, c, trans, 1.7, -0.3, 2e-16))


def test_chunks_and_no_check(tmp_path):
    a, b = random((90, 700)), random((700, 80), seed=1)
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.create_dataset("A", data=a, chunks=(32, 100), compression="gzip")
        file.create_dataset("B", data=b, chunks=(64, 80))
    multiply(tmp_path / "input.h5", "--split-k", 2, "--verify", "off", ranks=2)
    assert np.allclose(read(output_of(tmp_path / "input.h5")), a @ b, rtol=1e-12)


@pytest.mark.parametrize("ranks, layers, more, code, says", [
    (4, 3, [], 2, "cannot be divided into 3 layers of equal ranks"),
    (2, 4, [], 2, "cannot be divided into 4 layers of equal ranks"),
    (2, 2, ["--algo", "ozaki:14"], 2, "and whole multiples of 8192 steps"),
    (2, 0, [], 2, "--split-k 0"), (2, 2, ["--gpu-memory", "100K"], 4, "hold all of C")])
def test_what_cannot_be_split(tmp_path, ranks, layers, more, code, says):
    operands(tmp_path / "input.h5", M, N, K)
    done = run("dgemm_ooc", tmp_path / "input.h5", "--device", "cpu", "--split-k", layers, *more,
               ranks=ranks)
    assert done.returncode == code and says in done.stderr
    assert not output_of(tmp_path / "input.h5").exists()


def test_nothing_to_multiply(tmp_path):
    operands(tmp_path / "input.h5", 20, 30, 40)
    report = multiply(tmp_path / "input.h5", "--alpha", 0, "--beta", 2, "--split-k", 2, ranks=2)
    assert report["plan"]["layers"] == 1
    assert np.array_equal(read(output_of(tmp_path / "input.h5")),
                          2 * read(tmp_path / "input.h5", "C"))


def plan_for(tmp_path, *options, **rates):
    machine = {"device": "gpu", "compute_capability": 90, "ranks": 8, "ranks_per_node": 4,
               "threads": 16, "device_memory_bytes": 8 << 30, "host_memory_bytes": 8 << 30,
               "disk_read_bytes_per_s": 1e12, "disk_write_bytes_per_s": 1e12,
               "network_bytes_per_s": 2e10, "in_bytes_per_s": 5e10, "out_bytes_per_s": 5e10,
               "device_bytes_per_s": 2e12, "gemm_double_flops_per_s": 5e13,
               "gemm_float_flops_per_s": 5e13, **rates}
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    run("dgemm_ooc", "-n", tmp_path / "A.h5", "-b", f"{tmp_path}/B.h5:/B", "--machine",
        tmp_path / "machine.json", "--report", tmp_path / "plan.json", *options)
    return json.loads((tmp_path / "plan.json").read_text())


def test_only_where_it_wins_clearly(tmp_path):
    """With a small C on many ranks, the buses to the devices would otherwise carry A and B several times; if
    the disk is the limit, a split gains nothing."""
    sparse(tmp_path / "A.h5", "A", (2000, 4_000_000), "f8")
    sparse(tmp_path / "B.h5", "B", (4_000_000, 2000), "f8")
    off = plan_for(tmp_path, "--split-k", "off")
    auto = plan_for(tmp_path, "--split-k", "auto")
    slow = plan_for(tmp_path, "--split-k", "auto", disk_read_bytes_per_s=1e10)
    assert off["plan"]["layers"] == slow["plan"]["layers"] == 1 < auto["plan"]["layers"]
    assert auto["predicted"]["wall_s"] < 0.75 * off["predicted"]["wall_s"]
    assert auto["plan"]["read_bytes"] == off["plan"]["read_bytes"]
    assert auto["predicted"]["resources"]["disk read"]["bytes"] == off["plan"]["read_bytes"]


def test_one_layer_fails(tmp_path):
    """Only the second layer reads the damaged data; the first does not hang."""
    source = tmp_path / "input.h5"
    with h5py.File(source, "w") as file:
        file["A"] = random((40, 512))
        b = file.create_dataset("B", data=random((512, 30)), chunks=(64, 30), compression="gzip")
        where = b.id.get_chunk_info_by_coord((448, 0)).byte_offset
    with open(source, "r+b") as file:
        file.seek(where)
        file.write(bytes(64))
    done = run("dgemm_ooc", source, "--split-k", 2, ranks=2)
    assert done.returncode == 3 and "on rank 1" in done.stderr and "rank 0" not in done.stderr, done.stderr
    assert "others" not in done.stderr
    assert not output_of(source).exists()


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("value, row", [(np.nan, 5), (np.inf, 900), (1e200, 5)])
def test_columns_that_only_one_layer_cannot_check(tmp_path, layers, value, row):
    """The correct sum is not refused; the report says that it was not checked."""
    source = tmp_path / "input.h5"
    a, b, _ = operands(source, 60, 50, 997)
    b[row, 7] = value
    with h5py.File(source, "r+") as file:
        file["B"][...] = b
    done = run("dgemm_ooc", source, "--split-k", layers, ranks=layers)
    assert done.returncode == 6 and "failed" not in done.stderr, done.stdout + done.stderr
    columns = np.arange(50) != 7
    assert np.allclose(read(output_of(source))[:, columns], (a @ b)[:, columns], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-4, 0])
def test_what_is_found_is_that_of_all_layers(tmp_path, scale):
    """The detectable error covers all layers, whatever the scale of the first layer's part of k."""
    a, b = random((60, 997), "f4"), random((997, 50), "f4", 1)
    a[:, :512] *= scale
    source = write(tmp_path / "input.h5", A=a, B=b)
    whole = multiply(source)["detectable"]
    split = multiply(source, "--split-k", 2, "--force", ranks=2)["detectable"]
    assert whole / 4 < split < 4 * whole
