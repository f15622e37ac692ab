import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_sample_image

from epls.datasets import load_bundled


def test_digits_are_in_proportion():
    data = load_bundled("digits")
    images, labels = load_digits(return_X_y=True)
    assert data.images.dtype == np.uint8
    np.testing.assert_array_equal(data.images.reshape(-1, 64) / 15, images)
    np.testing.assert_array_equal(data.labels, labels)
    assert data.class_names == tuple("0123456789")


def test_photographs():
    data = load_bundled("photographs")
    assert data.images.shape == (2, 427, 640, 3)
    np.testing.assert_array_equal(data.images[0], load_sample_image("china.jpg"))
    assert data.labels is data.class_names is None


def test_unknown_name():
    with pytest.raises(ValueError, match=r"name='faces': give one of \['digits', 'photographs'\]"):
        load_bundled("faces")


def test_photographs_without_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"epls\[images\]"):
        load_bundled("photographs")


def test_import_loads_nothing_optional():
    code = "import sys, epls.datasets; print([m for m in ('PIL', 'pooch', 'sklearn') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
