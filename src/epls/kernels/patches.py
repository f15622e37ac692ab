"""Cutting patches out of an image and normalising them."""

import numpy as np

from ..utils.compiling import njit

# Sums may be reordered. One thread sums a patch, in one function without calls, so the bits are always the same.
_FAST = {"contract", "nsz", "arcp", "reassoc"}


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def gather_patches(image, tops, lefts, patch_size, contrast_floor, patches):
    """Write the patches at ``tops``, ``lefts`` of a (height, width * channels) image to the rows of ``patches``.

    Each is normalised: its mean is subtracted, and it is divided by the root of its variance + ``contrast_floor``.
    ``lefts`` and ``patch_size[1]`` count values, that is channels times pixels.
    """
    height, width = patch_size
    n_values = np.float32(height * width)
    one = np.float32(1.0)
    for k in range(tops.size):
        patch = patches[k]
        total = np.float32(0.0)
        for i in range(height):
            line = image[tops[k] + i, lefts[k] : lefts[k] + width]
            target = patch[i * width : (i + 1) * width]
            for j in range(width):
                value = np.float32(line[j])
                target[j] = value
                total += value
        mean = total / n_values
        squares = np.float32(0.0)
        for j in range(patch.size):
            value = patch[j] - mean
            patch[j] = value
            squares += value * value
        factor = one / np.sqrt(squares / n_values + contrast_floor)
        for j in range(patch.size):
            patch[j] *= factor
