"""Numbers that carry a tag in their last bits."""

import numpy as np
import pytest
from numba import njit

from epls.kernels.intrinsics import tag_of, tagged


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_tagged_number_keeps_its_size_and_tells_its_tag(kind):
    @njit
    def there_and_back(value, tag, keep):
        marked = tagged(value, tag, keep)
        return marked, tag_of(marked, keep)

    marked, tag = there_and_back(kind(3.7), 1234, ~2047)
    assert tag == 1234
    assert marked == pytest.approx(3.7, rel=float(2048 * np.finfo(kind).eps))
