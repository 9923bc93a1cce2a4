"""Which GPU each rank uses, and its share of the GPU's memory, for any visibility set by the launcher."""
import os
import subprocess

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
    """Ranks that see the same GPU share its memory; a rank that sees only its own GPU has all of it."""
    report = multiply(source, "--force", ranks=ranks, device="gpu", DGEMM_OOC_TEST_GPUS=gpus)
    memory = 0.95 * (20 << 30) / sharing
    assert report["machine"]["device_memory_bytes"] == pytest.approx(memory, rel=0.01)
    assert [rank["device"] for rank in report["ranks"]] == ["emulated"] * ranks


def test_a_rank_without_a_gpu_is_named(source):
    """Then all ranks compute on the CPU, unless a GPU was requested."""
    how = {"ranks": 3, "DGEMM_OOC_TEST_GPUS": "first"}
    done = run("emulated/dgemm_ooc", source, "--force", DGEMM_OOC_DEVICE="auto", **how)
    assert done.returncode == 0 and "rank 1 sees no GPU, but other ranks do" in done.stderr
    done = run("emulated/dgemm_ooc", source, "--force", DGEMM_OOC_DEVICE="gpu", **how)
    assert done.returncode == 4 and "no GPU can be used here" in done.stderr


@pytest.fixture
def has_gpu(tmp_path):
    """Files that make a program find a GPU among the computer's devices."""
    device = tmp_path / "devices" / "0000:1b:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    wrapper = ["unshare", *user, "--mount", "sh", "-c",
               'mount --bind "$0" /sys/bus/pci/devices && exec "$@"', device.parent]
    if subprocess.run([*wrapper, "true"], capture_output=True).returncode:
        pytest.skip("other devices cannot be feigned here")
    return wrapper


@pytest.mark.parametrize("gpus, reason, env", [
    ("driver", "hides all GPUs", {"CUDA_VISIBLE_DEVICES": ""}), ("driver", "driver is for CUDA 11.4", {}),
    ("old", "compute capability 7.0", {})])
def test_why_no_gpu_is_used(source, has_gpu, gpus, reason, env):
    """A run on the CPU and the refusal of a GPU state the same reason."""
    env = {"DGEMM_OOC_TEST_GPUS": gpus, **env}
    for options in ["--force"], ["--dry-run"]:
        done = run("emulated/dgemm_ooc", source, *options, wrapper=has_gpu, DGEMM_OOC_DEVICE="auto",
                   **env)
        assert done.returncode == 0 and done.stderr.count("\n") == 1
        assert "the GPU of this computer is not used" in done.stderr and reason in done.stderr
        done = run("emulated/dgemm_ooc", source, *options, DGEMM_OOC_DEVICE="gpu", **env)
        assert done.returncode == 4
        assert "no GPU can be used here" in done.stderr and reason in done.stderr
        assert done.stderr.count("\n") == 1
        done = run("emulated/dgemm_ooc", source, *options, wrapper=has_gpu, **env)
        assert done.returncode == 0 and done.stderr == ""  # with --device cpu


def test_a_build_without_gpus_says_so(source, has_gpu):
    if "no CUDA" not in run("dgemm_ooc", "--version").stdout:
        pytest.skip("this build has GPU support")
    done = run("dgemm_ooc", source, "--force", wrapper=has_gpu, DGEMM_OOC_DEVICE="auto")
    assert done.returncode == 0
    assert "this build has no GPU support (build with nvcc)" in done.stderr
