import pytest

from launch import AS_BUILT, built, make


@pytest.fixture
def gpu():
    """The GPU, a real one with `make test-gpu` and an emulated one without."""
    if not built("dgemm_ooc", "gpu").exists():
        pytest.skip("the program with an emulated GPU is not built: make test")
    return "gpu"


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request):
    """Every device."""
    return request.getfixturevalue("gpu") if request.param == "gpu" else "cpu"


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Where this build is installed."""
    folder = tmp_path_factory.mktemp("prefix")
    make("install", f"PREFIX={folder}", *AS_BUILT)
    return folder
