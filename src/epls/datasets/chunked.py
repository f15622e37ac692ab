"""Images of an array that is too large for memory, read in chunks."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.blocks import FileBlocks


class ChunkedImages:
    """The images of a zarr or dask array, or of :class:`FileImages`.

    It reads one chunk at a time, and keeps it for the images that follow.
    """

    def __init__(self, images: Any) -> None:
        self.shape = tuple(images.shape)
        self.ndim = len(self.shape)
        self._images = images
        heights = images.chunks[0]
        per_chunk = [heights] * -(-len(self) // heights) if isinstance(heights, int) else heights
        self._ends = np.minimum(np.cumsum(per_chunk), len(self))
        self._kept: tuple[int, Any] = (-1, None)
        self._reading = threading.Lock()

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, number: int) -> NDArray[Any]:
        if not 0 <= number < len(self):
            raise IndexError(f"there is no image {number} of {len(self)}")
        chunk = int(np.searchsorted(self._ends, number, side="right"))
        start = int(self._ends[chunk - 1]) if chunk > 0 else 0
        with self._reading:  # threads that encode neighbouring images need the same chunk
            if self._kept[0] != chunk:
                self._kept = (chunk, np.asarray(self._images[start : int(self._ends[chunk])]))
            image: NDArray[Any] = self._kept[1][number - start]
            return image


class FileImages:
    """Images of a memory map, read from its file one at a time. A file that is shortened meanwhile raises an error.

    With the map itself, the operating system would kill the process.

    Parameters
    ----------
    images : memmap of shape (n, height, width) or (n, height, width, channels)
        A map of the whole array of a .npy file, in C order.
    """

    def __init__(self, images: NDArray[Any]) -> None:
        assert isinstance(images, np.memmap)
        self.shape = images.shape
        self.chunks = (1, *images.shape[1:])
        table = (len(images), int(np.prod(images.shape[1:])))
        self._rows = FileBlocks(str(images.filename), images.offset, table, images.dtype)

    def __getitem__(self, image: slice) -> NDArray[Any]:
        return self._rows.rows(image.start, 1).reshape(self.chunks)
