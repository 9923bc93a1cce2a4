"""Which GPU a rank works on, and how much of it is its own, whatever the launcher lets it see."""
import pytest

from launch import GPU, run
from matrices import multiply, operands

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPU, reason="about GPUs that are made up")]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    source = tmp_path_factory.mktemp("gpus") / "input.h5"
    operands(source, 200, 100, 150)
    return source


@pytest.mark.parametrize("gpus, ranks, sharing", [
    ("1", 1, 1), ("1", 2, 2), ("1", 4, 4), ("2", 4, 2), ("4", 4, 1), ("2", 3, 2), ("8", 3, 1),
    ("own", 4, 1)])
def test_ranks_share_the_memory_of_their_gpu(source, gpus, ranks, sharing):
    """As many as see it; each that sees none but its own has all of it."""
    report = multiply(source, "--force", ranks=ranks, device="gpu", DGEMM_OOC_TEST_GPUS=gpus)
    memory = 0.95 * (20 << 30) / sharing
    assert report["machine"]["device_memory_bytes"] == pytest.approx(memory, rel=0.01)
    assert [rank["device"] for rank in report["ranks"]] == ["emulated"] * ranks


def test_a_rank_without_a_gpu_is_named(source):
    """All compute on the CPU then, unless a GPU was asked for."""
    how = {"ranks": 3, "DGEMM_OOC_TEST_GPUS": "first"}
    done = run("emulated/dgemm_ooc", source, "--force", DGEMM_OOC_DEVICE="auto", **how)
    assert done.returncode == 0 and "rank 1 sees no GPU, others do" in done.stderr
    done = run("emulated/dgemm_ooc", source, "--force", DGEMM_OOC_DEVICE="gpu", **how)
    assert done.returncode == 4 and "no GPU can be used here" in done.stderr
