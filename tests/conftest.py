"""What several test files share."""

import errno
import os
from importlib.util import find_spec

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is loaded: scikit-learn checks one thing more with it

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Compiling a kernel for a new type takes seconds, once: no deadline per example.
for name, n_examples in {"quick": 15, "nightly": 100}.items():
    settings.register_profile(
        name, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=n_examples
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

collect_ignore = [
    path
    for path, library in {
        "algorithm/test_torch_engine.py": "torch",
        "torch": "torch",
        "test_onnx.py": "onnxruntime",
    }.items()
    if find_spec(library) is None
]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for the groups
def pytest_collection_modifyitems(config, items):
    """Give each worker of pytest-xdist whole files, and all tests marked `alone`, which come first, to one worker.

    A file has its fixtures and its compiled kernels in one worker that way. Tests that start browsers or processes are
    never beside each other, and never last, when the other workers would wait for them.
    """
    items.sort(key=lambda item: item.get_closest_marker("alone") is None)
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            group = "alone" if item.get_closest_marker("alone") else item.nodeid.split("::")[0]
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session", params=[None, "cpu"], ids=["numpy", "torch"])
def device(request):
    """Where to compute: what holds for numbers holds for both engines."""
    if request.param is not None:
        pytest.importorskip("torch")
    return request.param


@pytest.fixture
def blobs():
    """400 samples in 6 dimensions around 8 centers, with centers and spread far from standard."""
    random = np.random.RandomState(0)
    centers = 50 * random.normal(size=(8, 6)) + 200
    return centers[random.randint(8, size=400)] + 5 * random.normal(size=(400, 6))


@pytest.fixture
def full_disk(monkeypatch):
    """No file can be brought to the disk."""

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
