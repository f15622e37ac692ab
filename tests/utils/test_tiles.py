"""Pictures as files, read by another library."""

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from epls.utils.tiles import png_file


@given(height=st.integers(1, 40), width=st.integers(1, 40), seed=st.integers(0, 100))
def test_png_files_are_read_by_pillow(height, width, seed):
    pixels = np.random.RandomState(seed).randint(256, size=(height, width, 3)).astype(np.uint8)
    with Image.open(io.BytesIO(png_file(pixels))) as image:
        assert image.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(image), pixels)
