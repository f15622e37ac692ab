"""What is written as the beginning of a .npy file, NumPy reads."""

import io

import numpy as np
import pytest

from epls.utils.npy import npy_header, read_npy


def test_rows_may_follow_the_header_one_after_the_other():
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    content = npy_header((4, 3)) + b"".join(row.tobytes() for row in rows)
    np.testing.assert_array_equal(np.load(io.BytesIO(content)), rows)
    np.testing.assert_array_equal(read_npy(io.BytesIO(content), len(content)), rows)


def test_a_file_that_ends_while_it_is_read():
    content = npy_header((4, 3)) + bytes(48)
    with pytest.raises(ValueError, match="ends before the end of its array"):
        read_npy(io.BytesIO(content[:-1]), len(content))
