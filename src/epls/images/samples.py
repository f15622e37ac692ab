"""Patches of whole images as samples: a mini-batch is one image cut into patches, the convolutional form of EPLS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from sklearn.utils.random import sample_without_replacement

from ..data.moments import Moments
from ..data.samples import Samples
from ..data.shuffling import Batch, ahead, batch_cuts
from ..utils.types import Array, Indices
from .patches import Preparation
from .pooling import Geometry
from .reading import ImageCollection


class ImagePatchSamples(Samples):
    """Patches of images, extracted on demand. A mini-batch holds the patches of one image.

    Images are used in random order until there are ``n_patches`` patches or no more images. An image with more than
    ``patches_per_image`` positions provides that many patches, from random positions; a smaller one provides all. The
    patches are the same in every epoch. Images are read again, one at a time, whenever their patches are needed, so
    memory does not grow with their number.

    An image with more patches than ``batch_size`` is divided into mini-batches of nearly equal sizes. If several images
    fit into ``batch_size``, a mini-batch consists of several whole images. Otherwise, the images determine the sizes of
    mini-batches: there is no remainder, and ``drop_last`` has no effect.

    Parameters
    ----------
    images : ImageCollection
        Images. Each must be at least as large as a patch.
    preparation : Preparation
        How patches are normalised and whitened.
    patch_size : int
        Height and width of a patch.
    n_patches : int
        The number of patches. The last image is used as a whole, so there can be a few more.
    patches_per_image : int
        The maximum number of patches of one image.
    random : RandomState
        Determines which images and patches are used.

    Attributes
    ----------
    numbers : ndarray of int of shape (n_images,)
        The images that are used.
    sizes : ndarray of int of shape (n_images,)
        The number of patches of each image.
    """

    def __init__(
        self,
        images: ImageCollection,
        preparation: Preparation,
        *,
        patch_size: int,
        n_patches: int,
        patches_per_image: int,
        random: np.random.RandomState,
    ) -> None:
        self._images, self._preparation = images, preparation
        self._patch_size, self._patches_per_image = patch_size, patches_per_image
        self._seed = int(random.randint(2**31 - 1))
        self._moments = Moments()
        numbers, sizes = [], []
        for number in random.permutation(len(images)):
            patches = self._patches(number)
            self._moments.add(patches)
            numbers.append(number)
            sizes.append(len(patches))
            if self._moments.n_samples >= n_patches:
                break
        self.numbers: Indices = np.array(numbers, np.intp)
        self.sizes: Indices = np.array(sizes, np.intp)
        self.shape = (self._moments.n_samples, patch_size**2 * images.n_channels)
        self.dtype = np.dtype(np.float32)

    @property
    def moments(self) -> Moments:
        return self._moments

    def epoch(
        self, random: np.random.RandomState, batch_size: int, *, skip: int = 0, n_even: int | None = None
    ) -> Iterator[Batch]:
        parts, n_together = self._parts(batch_size)
        groups = np.array_split(parts[random.permutation(len(parts))], range(n_together, len(parts), n_together))
        arrays = (np.concatenate([self._part(*part) for part in group]) for group in groups[skip:])
        return ((array, np.arange(len(array))) for array in ahead(arrays))

    def n_batches(self, batch_size: int, *, drop_last: bool = False) -> int:
        parts, n_together = self._parts(batch_size)
        return -(-len(parts) // n_together)

    def array(self) -> Array:
        return np.concatenate([self._patches(number) for number in self.numbers])

    def _parts(self, batch_size: int) -> tuple[Indices, int]:
        """Return image, first patch and end of every part that fits in a batch, and the number of parts per batch."""
        parts = [
            (number, start, stop)
            for number, size in zip(self.numbers, self.sizes, strict=True)
            for start, stop in pairwise(batch_cuts(size, batch_size, n_even=-(-size // batch_size)))
        ]
        largest = max(stop - start for _, start, stop in parts)
        return np.array(parts, np.intp), max(1, batch_size // largest)

    def _patches(self, number: int) -> Array:
        """Return all patches of an image that are used."""
        return self._part(number, 0, self._patches_per_image)

    def _part(self, number: int, start: int, stop: int) -> Array:
        """Return some of the patches of an image that are used."""
        image = self._images[int(number)]
        geometry = Geometry(self._patch_size)
        n_rows, n_columns = geometry.positions(*image.shape[:2])
        # Drawn again each time, to avoid storing the positions of all images.
        random = np.random.RandomState([self._seed, number])
        n_drawn = min(n_rows * n_columns, self._patches_per_image)
        drawn = random.permutation(sample_without_replacement(n_rows * n_columns, n_drawn, random_state=random))
        corners = geometry.corners(drawn[start:stop].astype(np.intp), n_columns)
        buffer = np.empty((len(corners[0]), self._patch_size**2 * self._images.n_channels), np.float32)
        return self._preparation.cut(image, corners, self._patch_size, buffer)
