"""NumPy's .npy format: writing headers, and reading them with checks."""

from __future__ import annotations

import io
import math
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray


class NpyHeader(NamedTuple):
    """The header of a .npy file: the shape, order and type of its array."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int  # the position of the first value

    @property
    def end(self) -> int:
        """The position after its last value."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def npy_header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    """Return the header of a .npy file, after which its rows can be written one by one."""
    header = io.BytesIO()
    npy_format.write_array_header_2_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    return header.getvalue()


def read_npy_header(file: IO[bytes], n_bytes: int) -> NpyHeader:
    """Read the header of a .npy file of ``n_bytes`` bytes, and leave the file at its first value.

    An invalid header, or a file that is too short for its array, is a ValueError.
    """
    try:
        major, _ = npy_format.read_magic(file)
        read = npy_format.read_array_header_1_0 if major == 1 else npy_format.read_array_header_2_0
        header = NpyHeader(*read(file), file.tell())
    except (EOFError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise ValueError(f"its header cannot be read ({error})") from error
    if header.dtype.hasobject:
        raise ValueError("it holds Python objects, which only pickle can read")
    if min(header.shape, default=0) < 0 or header.dtype.itemsize == 0:  # any number of which needs no bytes
        raise ValueError(f"its shape is {header.shape}, of type {header.dtype}")
    if n_bytes < header.end:
        raise ValueError(
            f"it is truncated: it has {n_bytes:,} bytes, but its array of shape {header.shape} needs {header.end:,}"
        )
    return header


def read_npy(file: Any, n_bytes: int) -> NDArray[Any]:
    """Read the array of a .npy file or a member of an archive, using no more memory than its ``n_bytes`` bytes."""
    header = read_npy_header(file, n_bytes)
    values = np.empty(math.prod(header.shape), header.dtype)
    left = values.view(np.uint8).data if values.nbytes else memoryview(b"")
    while left:
        n_read = file.readinto(left[: 2**24])
        if not n_read:
            raise ValueError("it ends before the end of its array")
        left = left[n_read:]
    return values.reshape(header.shape, order="F" if header.fortran_order else "C")
