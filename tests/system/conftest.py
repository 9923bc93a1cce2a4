import pytest

from launch import BUILD, GPU, SANITIZED, make, run


@pytest.fixture(params=["cpu", "gpu"] if GPU else ["cpu"])
def device(request):
    """Every device that these tests are asked to cover."""
    return request.param


@pytest.fixture(scope="session")
def as_built():
    """What make needs to hear so that it installs this build and does not make another."""
    if SANITIZED:
        pytest.skip("what is installed is the same under sanitizers")
    return [f"BUILD={BUILD}", f"CUDA={int('no CUDA' not in run('dgemm_ooc', '--version').stdout)}"]


@pytest.fixture(scope="session")
def prefix(as_built, tmp_path_factory):
    """Where this build is installed."""
    folder = tmp_path_factory.mktemp("prefix")
    make("install", f"PREFIX={folder}", *as_built)
    return folder
