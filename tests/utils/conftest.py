import pytest
from threadpoolctl import threadpool_limits

from epls.utils.threads import blas_threads


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != 2:
            pytest.skip("the BLAS library has one thread here")
        yield
