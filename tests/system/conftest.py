import pytest

from launch import GPU


@pytest.fixture(params=["cpu", "gpu"] if GPU else ["cpu"])
def device(request):
    """Every device that these tests are asked to cover."""
    return request.param
