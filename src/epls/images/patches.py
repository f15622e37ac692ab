"""Patches of images: drawn at random, and normalised for brightness and contrast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

Array = NDArray[np.floating]


def sample_patches(
    images: Sequence[ArrayLike] | NDArray[Any], n_patches: int, patch_size: int, *, random_state: Any = None
) -> NDArray[Any]:
    """Square patches from random places of random images.

    Parameters
    ----------
    images : sequence of arrays of shape (height, width) or (height, width, channels)
        Images, of any sizes that a patch fits in.
    n_patches : int
        How many patches.
    patch_size : int
        Their height and width.
    random_state : int, RandomState or None
        Which ones.

    Returns
    -------
    ndarray of shape (n_patches, patch_size * patch_size * channels)
        A patch per row, row by row of the patch, of the images' type.

    Examples
    --------
    >>> import numpy as np
    >>> sample_patches([np.zeros((8, 9, 3), np.uint8)], 5, patch_size=4, random_state=0).shape
    (5, 48)
    """
    if len(images) == 0:
        raise ValueError("no images were given: there is nothing to draw patches from")
    random = check_random_state(random_state)
    patches = None
    for k, number in enumerate(random.randint(len(images), size=n_patches)):
        image = np.asarray(images[number])
        if image.ndim not in (2, 3) or min(image.shape[:2]) < patch_size:
            raise ValueError(
                f"image {number} has shape {image.shape}: patches of {patch_size} x {patch_size} need an image of "
                f"shape (height, width) or (height, width, channels) that is no smaller"
            )
        top, left = (random.randint(side - patch_size + 1) for side in image.shape[:2])
        patch = image[top : top + patch_size, left : left + patch_size].reshape(-1)
        if patches is None:
            patches = np.empty((n_patches, patch.size), image.dtype)
        if patch.size != patches.shape[1] or image.dtype != patches.dtype:
            raise ValueError(
                f"image {number} has shape {image.shape} and type {image.dtype}, another number of channels or type "
                f"than those before it: make all grey or all colour, and all of one type"
            )
        patches[k] = patch
    if patches is None:
        raise ValueError(f"n_patches={n_patches}: ask for at least one")
    return patches


def normalize_patches(patches: ArrayLike, *, contrast_floor: float = 10.0) -> Array:
    """Subtract each patch's mean and divide by its standard deviation.

    Parameters
    ----------
    patches : array-like of shape (n_patches, n_features)
        Patches of pixels on the scale 0 to 255.
    contrast_floor : float, default=10
        Added to the variance, so that flat patches are not blown up to noise.

    Returns
    -------
    ndarray of shape (n_patches, n_features)
        float64 for float64, else float32.
    """
    checked = check_array(patches, dtype=[np.float64, np.float32, np.uint8])
    pixels = checked.astype(np.float64 if checked.dtype == np.float64 else np.float32)
    pixels -= pixels.mean(axis=1, keepdims=True)
    variances = np.square(pixels).mean(axis=1, keepdims=True)
    pixels /= np.sqrt(variances + pixels.dtype.type(contrast_floor))
    return pixels
