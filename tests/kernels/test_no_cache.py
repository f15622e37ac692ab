"""Compiled functions without a place to keep them."""

import subprocess
import sys

_SCRIPT = """
import warnings
import numpy as np
from numba.core import caching

for kind in vars(caching).values():
    if isinstance(kind, type) and hasattr(kind, "_locator_classes"):
        kind._locator_classes = []  # as if no folder were writable
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    from epls.kernels.activation import logistic_float32
    from epls.kernels import codes, hinge, lasso, market
net = np.zeros((2, 3), np.float32)
logistic_float32(net, np.empty(2, np.float32))
assert (net == 0.5).all()
assert ["NUMBA_CACHE_DIR" in str(warning.message) for warning in told] == [True]
"""


def test_without_a_writable_folder_everything_works_and_one_warning_says_what_it_costs():
    run = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
