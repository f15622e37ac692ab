"""What several test files share."""

import errno
import os
import secrets
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
        "torch": "torch",
        "test_onnx.py": "onnxruntime",
    }.items()
    if find_spec(library) is None
]


# These start browsers or processes, and wait for them: one worker runs them all, one after another.
ALONE = (
    "tests/algorithm/test_checkpoint_kills.py",
    "tests/cli/test_kills.py",
    "tests/images/test_stack.py::test_progress_counts_the_epochs_of_all_groups",
    "tests/report/test_explore.py::test_features_are_learned_if_none_are_given",
    "tests/kernels/test_compile_time.py",
    "tests/report/test_browser.py",
    "tests/report/test_explore_browser.py",
    "tests/test_distribution.py",
    "tests/torch/test_distributed.py",
)

# Before scikit-learn 1.9, there are no callbacks: `make test-lowest`. These set them, or wait for their reports.
HAS_CALLBACKS = find_spec("sklearn.callback") is not None
WITH_CALLBACKS = (
    "src/epls/algorithm/checkpoint.py::epls.algorithm.checkpoint.Checkpoint",
    "src/epls/callbacks.py::epls.callbacks.OnEpoch",
    "tests/algorithm/test_checkpoint_kills.py",
    "tests/cli/test_kills.py",
    "tests/images/test_stack.py::test_progress_counts_the_epochs_of_all_groups",
    "tests/report/test_explore.py::test_features_are_learned_if_none_are_given",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give the workers of pytest-xdist whole files, so that fixtures and kernels are made once, and `ALONE` to one."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "alone" if nodeid.startswith(ALONE) else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items):
    """Run first what one worker runs alone: if it came last, the others would wait."""
    items.sort(key=lambda item: not item.nodeid.startswith(ALONE))
    for item in items:
        if not HAS_CALLBACKS and item.nodeid.startswith(WITH_CALLBACKS):
            item.add_marker(pytest.mark.skip("scikit-learn has no callbacks"))


@pytest.fixture(autouse=not HAS_CALLBACKS)
def _no_callbacks(monkeypatch):
    """Skip the rest of a test that sets callbacks."""
    from epls.callbacks import Epochs

    def set_callbacks(learner, *callbacks):
        if callbacks:
            pytest.skip("scikit-learn has no callbacks")
        return learner

    monkeypatch.setattr(Epochs, "set_callbacks", set_callbacks)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    """Features that a test's commands keep are its own: a folder that is created when they do."""
    folder = tmp_path_factory.getbasetemp() / f"cache-{secrets.token_hex(8)}"
    monkeypatch.setenv("EPLS_CACHE_DIR", str(folder))
    return folder


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
