"""Dense encoding: the codes of the patches at all positions of an image.

These codes are the *map* of the image, (rows, columns, n_codes). It is computed in blocks of positions, so a photograph
with millions of positions needs no more memory than a small image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..algorithm.half import tell_float32, uses_half
from ..algorithm.layer import FoldedLayer
from ..data.coder import BlockEncoder, checked_encoder
from ..utils.optional import torch_room
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
    """Encode one image after the other in one thread; buffers are allocated once.

    Parameters
    ----------
    features : ImageFeatures
        Fitted features.
    encode : callable
        A function from patches to codes, created by the encoder's ``block_encoders``.
    """

    def __init__(self, features: ImageFeatures, encode: BlockEncoder) -> None:
        self._n_codes = features.encoder_.n_codes
        self._encode = checked_encoder(encode, self._n_codes, type(features.encoder_).__name__)
        self._whitening = features.whitening_
        self._patch_size, self._stride = features.patch_size, features.stride
        self._contrast_floor = features.contrast_floor_
        self._patches = np.empty((BLOCK_ROWS, features.patch_size**2 * features.n_channels_), np.float32)

    def blocks(self, image: NDArray[Any], order: Order = np.arange) -> Iterator[tuple[Indices, Array]]:
        """Iterate over the map of an image in blocks.

        Parameters
        ----------
        image : ndarray of shape (height, width, channels)
            A checked image.
        order : callable, default=numpy.arange
            Returns the positions from the start-th to before the stop-th. By default, the map is read row by row.

        Yields
        ------
        positions : ndarray of int of shape (n_positions,)
            The positions of the block.
        codes : ndarray of shape (n_positions, n_codes)
            The codes at these positions. They are valid until the next block.
        """
        positions = self._positions(image)
        for some in row_blocks(len(positions), BLOCK_ROWS):
            block = order(some.start, some.stop)
            room, corners = self._patches[: len(block)], positions.corners(block)
            patches = cut_patches(image, corners, self._contrast_floor, self._whitening, room, self._patch_size)
            yield block, self._encode(patches)

    def map(self, image: NDArray[Any]) -> Array:
        """Return the whole map of an image, (rows, columns, n_codes)."""
        positions = self._positions(image)
        codes = np.empty((len(positions), self._n_codes), np.float32)
        for block, found in self.blocks(image):
            codes[block] = found
        return codes.reshape(*positions.shape, -1)

    def sums(self, image: NDArray[Any], regions: RegionGrid) -> Array:
        """Return the sums (n_regions, n_codes) of the codes of an image."""
        return self.sums_and_cells(image, regions, None)[0]

    def sums_and_cells(
        self,
        image: NDArray[Any],
        regions: RegionGrid,
        cells: Cells | None,
        see: Callable[[Indices, Array], None] | None = None,
    ) -> tuple[Array, Array]:
        """Return the sums of the codes over regions, and the map pooled to cells, which is empty without cells.

        ``see`` is called with the positions and the codes of each block.
        """
        # In float64, because float32 is not precise enough for the millions of patches of a photograph.
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
    """Iterate over the maps of images.

    Parameters
    ----------
    features : ImageFeatures
        Fitted features.
    X : as for ``features.transform``
        Images. Each must be at least as large as a patch, and its map must fit in memory.

    Yields
    ------
    ndarray of float32 of shape (rows, columns, n_codes)
        The codes at all positions of an image. A side has (side - patch_size) // stride + 1 positions.

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
    """Iterate over sums of codes in regions of images. :func:`epls.images.pooling.pool_sums` makes features of them.

    Parameters
    ----------
    features : ImageFeatures
        Fitted features.
    X : as for ``features.transform``
        Images.
    start : int, default=0
        The first image to encode.

    Yields
    ------
    ndarray of float32 of shape (n_regions, n_codes), or (2, n_regions, n_codes) with ``mirror``
        The sums of an image and, with ``mirror``, those of its mirror image.
    """
    return (sums for sums, _ in sums_and_counts(features, fitting_images(features, X), start, held=True))


def sums_and_counts(
    features: ImageFeatures, images: ImageCollection, start: int = 0, *, held: bool
) -> Iterator[tuple[Array, Indices]]:
    """Iterate over the sums of codes over the regions of each image and the number of positions in each region.

    ``held`` says whether a user holds the iterator, and so may ask for the next result at any time, or never.
    """
    if features.device is not None:
        resolve_device = torch_room("engine").resolve_device
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
    """Iterate over the results for the images with these numbers; each thread has its own encoder."""
    new_encoder = patch_encoders(features, features.precision)

    def new_worker() -> Callable[[int], Result]:
        encoder = DenseEncoder(features, new_encoder())
        return lambda number: result(encoder, images[number])

    return (map_in_rounds if held else map_tasks)(new_worker, numbers)


def patch_encoders(features: ImageFeatures, precision: str) -> Callable[[], BlockEncoder]:
    """What makes functions from patches to codes, one for each thread."""
    encoder, dtype = features.encoder_, np.dtype(np.float32)
    if uses_half(precision):
        if encoder.is_layer:
            return encoder.as_layer().block_encoders(dtype, mirrored=encoder.split_sign)
        if precision == "bfloat16":
            tell_float32(f"the codes of {type(encoder).__name__} are not the outputs of one layer of units")
    return encoder.block_encoders(dtype)


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
