"""Images in any supported form, read one at a time and checked."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.blocks import package_of
from ..datasets.arrays import ChunkedImages
from ..datasets.decoding import exif_orientation, require_pillow, upright
from ..datasets.folder import ImageFolder
from ..utils.threads import map_tasks
from ..utils.types import Indices, Progress
from ..utils.wording import listed

Images: TypeAlias = "NDArray[Any] | Sequence[Any] | ImageCollection | str | os.PathLike[str]"

# Pixels of these types are kept; others are converted to float32.
_TYPES = (np.dtype(np.uint8), np.dtype(np.float32))
_SIZES_LOOKED_AT = 100
# Modes of Pillow images whose numbers are gray values or red, green and blue.
_MODES_OF_NUMBERS = ("L", "RGB", "I", "I;16", "F")

_LARGEST_SIDE = 128  # of images of one size, which are used without resizing
_SIDE, _SIDE_OF_MANY = 96, 64  # otherwise images are resized to at most this many pixels per side
MANY_IMAGES = 20_000

#: Squares of such pixels, summed over patches of any size that fits in memory, do not overflow float32.
LARGEST_PIXEL = 1e14


class ImageCollection:
    """A sequence of checked images of shape (height, width, channels), C-contiguous, uint8 or float32.

    A sequence may contain Pillow images, as does a column of a Hugging Face data set. A memory map or a folder is read
    image by image, and a zarr or dask array chunk by chunk. All images must have ``n_channels``, and pixels that are
    ``whole_numbers`` (mostly 0 to 255) or fractions; None takes channels and type of the first image.
    """

    def __init__(
        self, images: Images, smallest_side: int, n_channels: int | None = None, whole_numbers: bool | None = None
    ) -> None:
        if isinstance(images, ImageCollection):
            images = images.images
        if isinstance(images, str | os.PathLike):
            images = ImageFolder(images, smallest_side=smallest_side)
        if package_of(images) in ("zarr", "dask") and hasattr(images, "chunks"):
            images = ChunkedImages(images)  # type: ignore[assignment]
        if isinstance(images, np.ndarray | ChunkedImages) and images.ndim not in (3, 4):
            raise ValueError(
                f"images must be an array of shape (n, height, width) or (n, height, width, channels), got shape "
                f"{images.shape}: reshape rows of pixels to images, and put a single image in a list"
            )
        if hasattr(images, "column_names"):  # of the datasets library
            raise TypeError(
                f"a {type(images).__name__} has the columns {listed(list(images.column_names))}: give the column with "
                f'the images, as in dataset["image"]'
            )
        if not hasattr(images, "__len__") or not hasattr(images, "__getitem__"):
            raise TypeError(
                f"images must be an array, a sequence of arrays, or the path of a folder, got {type(images).__name__}"
            )
        if len(images) == 0:
            raise ValueError("no images were given: at least one is needed")
        if n_channels is None and isinstance(images, np.ndarray | ChunkedImages):
            _warn_of_one_image(images.shape, smallest_side)
        self.images: Any = images
        self.smallest_side = smallest_side
        first = _as_array(images[0])
        self.n_channels = int(np.prod(first.shape[2:])) if n_channels is None else n_channels
        self._type = first.dtype if whole_numbers is None else None
        self.whole_numbers = _is_whole(first.dtype) if whole_numbers is None else whole_numbers

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> NDArray[Any]:
        image = _as_array(self.images[number])
        if image.ndim not in (2, 3) or min(image.shape[:2]) < self.smallest_side or image.shape[2:] == (0,):
            raise ValueError(self._too_small(number, image.shape))
        if image.dtype.kind not in "uifb":
            raise ValueError(f"{self._name(number)} has values of type {image.dtype}: pixels must be numbers")
        if image.dtype.kind == "f" and not np.isfinite(image).all():
            raise ValueError(f"{self._name(number)} has pixels that are NaN or infinite: remove or replace them")
        if image.dtype != np.uint8 and (largest := max(float(image.max()), -float(image.min()))) > LARGEST_PIXEL:
            raise ValueError(
                f"{self._name(number)} has pixels of up to {largest:.2g}, but at most {LARGEST_PIXEL:.0e} can be "
                f"squared and summed over a patch in single precision: divide all images by one number"
            )
        if self._type is not None and image.dtype != self._type:
            raise ValueError(
                f"{self._name(number)} has values of type {image.dtype}, but the first image {self._type}: convert "
                f"all to the same type and scale"
            )
        if _is_whole(image.dtype) != self.whole_numbers:
            raise ValueError(
                f"{self._name(number)} has values of type {image.dtype}, but features were learned from "
                f"{'whole numbers' if self.whole_numbers else 'fractions'}: give pixels of the same type and scale"
            )
        image = image.reshape(*image.shape[:2], -1)
        if image.shape[2] != self.n_channels:
            kinds = {image.shape[2], self.n_channels}
            advice = "make all images gray or all color" if kinds <= {1, 3} else "give images with the same channels"
            raise ValueError(
                f"{self._name(number)} has {image.shape[2]} channel(s), but {self.n_channels} are needed: {advice}"
            )
        return np.ascontiguousarray(image, image.dtype if image.dtype in _TYPES else np.float32)

    def require(self, smallest_side: int) -> None:
        """Require this minimum height and width from now on. If all sizes are known, check them at once."""
        self.smallest_side = smallest_side
        for number, shape in enumerate(getattr(self.images, "shapes", ())):
            if min(shape[:2]) < smallest_side:
                raise ValueError(self._too_small(number, shape))

    def shapes(self, n_images: int | None = None) -> Sequence[tuple[int, ...]]:
        """Return the shape of each image, or one if all are equal; ``n_images`` limits a sequence of arrays."""
        source: Any = self.images
        if hasattr(source, "shapes"):
            return source.shapes
        if hasattr(source, "shape"):
            return [source.shape[1:]]
        return [_as_array(source[number]).shape for number in range(len(source))[:n_images]]

    def smallest_size(self) -> tuple[int, int]:
        """Return the smallest height and width of the images; of a sequence of arrays, those of the first hundred."""
        shapes = self.shapes(_SIZES_LOOKED_AT)
        return min(int(shape[0]) for shape in shapes), min(int(shape[1]) for shape in shapes)

    def name(self, number: int) -> str:
        """Return the name of an image: its file or its number."""
        names = getattr(self.images, "names", None)
        return f"image {number}" if names is None else str(names[number])

    def some(self, numbers: Indices) -> ImageCollection:
        """Return the images with these numbers, which are read when needed and keep their names."""
        return ImageCollection(_Subset(self, numbers), self.smallest_side, self.n_channels, self.whole_numbers)

    def _too_small(self, number: int, shape: tuple[int, ...]) -> str:
        is_stack = len(shape) == 2 and isinstance(self.images, np.ndarray | ChunkedImages)
        return (
            f"{self._name(number)} has shape {shape}; needed is (height, width) or (height, width, channels) "
            f"with a height and width of at least {self.smallest_side}, so that there are patches in every region"
            + (". An array of one image with channels is read as gray images: give [image]" if is_stack else "")
        )

    def _name(self, number: int) -> str:
        return self.name(number) if getattr(self.images, "names", None) is None else f"the image {self.name(number)}"


class _Subset(Sequence[NDArray[Any]]):
    """A selection of images, in their original form."""

    def __init__(self, images: ImageCollection, numbers: Indices) -> None:
        self._images = images.images
        self._numbers = numbers
        self.names = [images.name(int(number)) for number in numbers]

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: Any) -> Any:
        return self._images[int(self._numbers[number])]


def of_one_size(images: ImageCollection, progress: Progress = lambda stage, done, total: None) -> Any:
    """Return images of one size: unchanged, or all resized to a square, whatever their shape.

    If all images are less high or wide than the square, so is the size that they get: it enlarges none of the largest.
    """
    shapes = {tuple(shape[:2]) for shape in images.shapes()}
    if len(shapes) == 1 and max(max(shapes)) <= _LARGEST_SIDE:
        return images.images
    side = _SIDE_OF_MANY if len(images) > MANY_IMAGES else _SIDE
    height, width = (min(side, max(sides)) for sides in zip(*shapes, strict=True))
    small: NDArray[Any] = np.empty((len(images), height, width, images.n_channels), images[0].dtype)
    tasks = map_tasks(lambda: lambda number: resized(images[number], height, width), range(len(images)))
    for number, image in enumerate(tasks):
        small[number] = image
        progress("shrink", number + 1, len(images))
    return small


def resized(image: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Resize an image (height, width, channels) of bytes or float32. Each pixel is the mean of the area it covers."""
    Image = require_pillow()
    if image.shape[:2] == (height, width):
        return image
    if image.dtype == np.uint8 and image.shape[2] in (1, 3):
        picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
        small = np.asarray(picture.resize((width, height), Image.Resampling.BOX))
        return small.reshape(height, width, -1)
    bands = [
        np.asarray(Image.fromarray(band).resize((width, height), Image.Resampling.BOX))
        for band in np.ascontiguousarray(image.transpose(2, 0, 1), np.float32)
    ]
    found = np.stack(bands, axis=2)
    return np.rint(found).astype(image.dtype) if image.dtype.kind in "ui" else found


def _as_array(image: Any) -> NDArray[Any]:
    """Return the pixels of an image, which may be a Pillow image, as in Hugging Face data sets.

    It is turned upright, palettes become colors, and transparency is dropped, as for image files.
    """
    if not hasattr(image, "getbands"):
        return np.asarray(image)
    image.load()
    orientation = exif_orientation(image)
    if image.mode not in _MODES_OF_NUMBERS:
        if "transparency" in image.info:
            image = image.convert("RGBA")  # Pillow warns about other ways
        image = image.convert("L" if image.mode in ("1", "LA", "La") else "RGB")
    return upright(np.asarray(image), orientation)


def _warn_of_one_image(shape: tuple[int, ...], smallest_side: int) -> None:
    """Warn about an array of gray images that looks like one image, (height, width, channels).

    The height and width of a picture are usually similar. If a side is too small, an error says the same.
    """
    is_like_one = len(shape) == 3 and 3 * shape[2] <= min(shape[:2]) and max(shape[:2]) <= 4 * min(shape[:2])
    if not is_like_one or shape[2] < smallest_side:
        return
    warnings.warn(
        f"an array of shape {shape} is read as {shape[0]} gray images of {shape[1]} x {shape[2]} pixels. If it is one "
        f"image with {shape[2]} channels, give [image]; if they are gray images, give shape {(*shape, 1)}",
        UserWarning,
        stacklevel=5,
    )


def _is_whole(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "uib"
