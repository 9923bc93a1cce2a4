import pytest

from launch import AS_BUILT, GPU, make


@pytest.fixture(params=["cpu"] + [pytest.param("gpu", marks=pytest.mark.gpu)] * GPU)
def device(request):
    """Every device that these tests are asked to cover."""
    return request.param


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Where this build is installed."""
    folder = tmp_path_factory.mktemp("prefix")
    make("install", f"PREFIX={folder}", *AS_BUILT)
    return folder
