"""Dense encoding: the codes of the patches at all positions of an image.

They are the image's *map*, (rows, columns, n_codes). It is made in blocks of positions, so that a photograph with
millions of them needs no more memory than a small image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..algorithm.layer import FoldedLayer
from ..data.coder import BlockEncoder, checked_encoder
from ..utils.threads import BLOCK_ROWS, map_in_rounds, map_tasks, row_blocks
from ..utils.types import Array, Indices
from .collection import ImageCollection, Images
from .patches import cut_patches
from .pooling import Cells, PatchPositions, RegionGrid, image_regions, smallest_side

if TYPE_CHECKING:
    from .features import ImageFeatures

Order: TypeAlias = Callable[[int, int], Indices]
Result = TypeVar("Result")


class DenseEncoder:
    """Encodes one image after the other, for one thread: its buffers are allocated once.

    Parameters
    ----------
    features : ImageFeatures
        Fitted.
    encode : callable
        From patches to codes, as the encoder's ``block_encoders`` makes it.
    """

    def __init__(self, features: ImageFeatures, encode: BlockEncoder) -> None:
        self._n_codes = features.encoder_.n_codes
        self._encode = checked_encoder(encode, self._n_codes, type(features.encoder_).__name__)
        self._whitening = features.whitening_
        self._patch_size, self._stride = features.patch_size, features.stride
        self._contrast_floor = features.contrast_floor_
        self._patches = np.empty((BLOCK_ROWS, features.patch_size**2 * features.n_channels_), np.float32)

    def blocks(self, image: NDArray[Any], order: Order = np.arange) -> Iterator[tuple[Indices, Array]]:
        """The map of an image in blocks.

        Parameters
        ----------
        image : ndarray of shape (height, width, channels)
            A checked image.
        order : callable, default=numpy.arange
            Returns the positions from the start-th to before the stop-th. The default is the map's order, row by row.

        Yields
        ------
        positions : ndarray of int of shape (n_positions,)
            The positions of the block.
        codes : ndarray of shape (n_positions, n_codes)
            The codes there. They are valid until the next block is asked for.
        """
        positions = self._positions(image)
        for some in row_blocks(len(positions), BLOCK_ROWS):
            block = order(some.start, some.stop)
            room, corners = self._patches[: len(block)], positions.corners(block)
            patches = cut_patches(image, corners, self._contrast_floor, self._whitening, room, self._patch_size)
            yield block, self._encode(patches)

    def map(self, image: NDArray[Any]) -> Array:
        """The whole map of an image, (rows, columns, n_codes)."""
        positions = self._positions(image)
        codes = np.empty((len(positions), self._n_codes), np.float32)
        for block, found in self.blocks(image):
            codes[block] = found
        return codes.reshape(*positions.shape, -1)

    def sums(self, image: NDArray[Any], regions: RegionGrid) -> Array:
        """The sums (n_regions, n_codes) of the codes of an image."""
        return self.sums_and_cells(image, regions, None)[0]

    def sums_and_cells(
        self,
        image: NDArray[Any],
        regions: RegionGrid,
        cells: Cells | None,
        see: Callable[[Indices, Array], None] | None = None,
    ) -> tuple[Array, Array]:
        """The sums of the codes of an image over regions, and its map pooled to cells; without these, it is empty.

        ``see`` is called with the positions and the codes of each block.
        """
        # In float64: single precision loses count of the millions of patches of a photograph.
        sums = np.zeros((len(regions.counts), self._n_codes))
        pooled = np.empty(0, np.float32) if cells is None else cells.room(self._n_codes)
        for block, found in self.blocks(image, regions.order):
            regions.add(found, block, sums)
            if cells is not None:
                cells.add(found, block, pooled)
            if see is not None:
                see(block, found)
        return sums.astype(np.float32), pooled if cells is None else cells.pooled(pooled)

    def _positions(self, image: NDArray[Any]) -> PatchPositions:
        return PatchPositions(image.shape[0], image.shape[1], self._patch_size, self._stride)


def code_maps(features: ImageFeatures, X: Images) -> Iterator[Array]:
    """The maps of images, one after the other.

    Parameters
    ----------
    features : ImageFeatures
        Fitted.
    X : as for ``features.transform``
        Images of any sizes that a patch fits in. A map has to fit in memory.

    Yields
    ------
    ndarray of float32 of shape (rows, columns, n_codes)
        The codes at all positions of an image. Along a side there are (side - patch_size) // stride + 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS, ImageFeatures
    >>> images = load_digits().images
    >>> features = ImageFeatures(EPLS(20, max_iter=3), patch_size=5, n_patches=2000, random_state=0).fit(images)
    >>> next(code_maps(features, images)).shape
    (4, 4, 20)
    """
    images = fitting_images(features, X, 1)
    return _encoded(features, images, range(len(images)), DenseEncoder.map, held=True)


def region_sums(features: ImageFeatures, X: Images, *, start: int = 0) -> Iterator[Array]:
    """The sums of codes over the regions of images, from which :func:`epls.images.pooling.pool_sums` makes features.

    Parameters
    ----------
    features : ImageFeatures
        Fitted.
    X : as for ``features.transform``
        Images.
    start : int, default=0
        The first image to encode.

    Yields
    ------
    ndarray of float32 of shape (n_regions, n_codes), or (2, n_regions, n_codes) with ``mirror``
        The sums of an image, and those of its mirror image.
    """
    return (sums for sums, _ in sums_and_counts(features, fitting_images(features, X), start, held=True))


def sums_and_counts(
    features: ImageFeatures, images: ImageCollection, start: int = 0, *, held: bool
) -> Iterator[tuple[Array, Indices]]:
    """For each image, the sums of codes over its regions and the number of positions in each.

    ``held`` tells whether the iterator goes to a user, who may take the next result at any time, or never.
    """
    if features.device is not None:
        from ..algorithm.engines.torch.devices import resolve_device  # first: it says what to install without torch
        from .torch_dense import sums_and_counts as sums_in_torch

        return sums_in_torch(features, images, start, resolve_device(features.device))

    def encoded(encoder: DenseEncoder, image: NDArray[Any]) -> tuple[Array, Indices]:
        regions = image_regions(features, *image.shape[:2])
        if not features.mirror:
            return encoder.sums(image, regions), regions.counts
        mirrored = np.ascontiguousarray(image[:, ::-1])
        return np.stack([encoder.sums(view, regions) for view in (image, mirrored)]), regions.counts

    return _encoded(features, images, range(start, len(images)), encoded, held=held)


def _encoded(
    features: ImageFeatures,
    images: ImageCollection,
    numbers: range,
    result: Callable[[DenseEncoder, NDArray[Any]], Result],
    *,
    held: bool,
) -> Iterator[Result]:
    """A result for each image of some numbers, each thread with an encoder of its own."""
    new_encoder = features.encoder_.block_encoders(np.dtype(np.float32))

    def new_worker() -> Callable[[int], Result]:
        encoder = DenseEncoder(features, new_encoder())
        return lambda number: result(encoder, images[number])

    return (map_in_rounds if held else map_tasks)(new_worker, numbers)


def fitting_images(features: ImageFeatures, X: Images, grid: int | None = None) -> ImageCollection:
    """Images, checked to be such as fitted features can encode, with a patch in each region of a grid."""
    check_is_fitted(features)
    least = smallest_side(features.patch_size, features.stride, features.grid if grid is None else grid)
    return ImageCollection(X, least, features.n_channels_, features.whole_numbers_)


def patch_layer(features: ImageFeatures) -> FoldedLayer:
    """The layer of units whose outputs for normalised patches are the codes, if the encoder is one.

    Parameters
    ----------
    features : ImageFeatures
        Fitted.

    Returns
    -------
    FoldedLayer
        Its weights contain the whitening. If the encoder splits signs, the outputs with mirrored components follow.
    """
    check_is_fitted(features)
    layer, whitening = features.encoder_.as_layer().folded(), features.whitening_
    if whitening is None:
        return layer
    return layer.after(whitening.mean_.astype(np.float64), whitening.matrix_.astype(np.float64))
