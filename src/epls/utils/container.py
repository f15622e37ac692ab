"""Arrays and plain values in one safetensors file, with a checksum over both. Damaged files are refused.

The values are JSON in the header of the file. Nothing in a file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from .files import open_regular, write_atomically

#: The largest header in bytes: parsing JSON of this size takes a second and a quarter of a gigabyte.
LARGEST_HEADER = 2**24


class DamagedError(ValueError):
    """A file was changed after it was written."""


class ForeignError(DamagedError):
    """A file was written by another program."""


class VersionError(ValueError):
    """A file has the format of another version."""


def write_container(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write plain values and arrays. An existing file is replaced only when the new one is complete."""
    # safetensors silently stores arrays that are not contiguous in the wrong order.
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        header = json.loads(json.dumps(header, allow_nan=False))  # as it will be read
    except ValueError as error:
        raise ValueError(f"settings and notes must be finite numbers, text, lists and dicts: {error}") from error
    text = json.dumps(header | {"digest": _digest(header, arrays)}, allow_nan=False)
    if len(text) > LARGEST_HEADER:
        raise ValueError(f"settings and notes have {len(text):,} bytes, but a file may hold at most {LARGEST_HEADER:,}")
    write_atomically(path, save(arrays, metadata={"epls": text}))


def read_container(source: Path | bytes, *formats: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plain values and the arrays of a file with one of these formats, or of the content of a file.

    Another format is a :class:`VersionError`; anything that :func:`write_container` would not write is a
    :class:`DamagedError`.
    """
    try:
        content = source if isinstance(source, bytes) else _content(source)
        size = _header_size(content, len(content))
        metadata = json.loads(content[8 : 8 + size]).get("__metadata__", {})
        if "epls" not in metadata:
            raise ForeignError("it was not written by epls")
        header = json.loads(metadata["epls"])
        if not isinstance(header, dict):
            raise DamagedError("its header is not a dict of settings")
        if header["format"] not in formats:
            writer = f"epls {header['epls']}" if header.get("epls") else "an unknown version"
            raise VersionError(f"it has format {header['format']}, written by {writer}")
        arrays = load(content)
        digest = header.pop("digest", None)
        whole = digest == _digest(header, arrays)
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError, MemoryError, AttributeError) as error:
        if isinstance(error, DamagedError | VersionError):
            raise
        raise DamagedError(str(error) or type(error).__name__) from error
    if not whole:
        raise DamagedError("its checksum is missing" if digest is None else "its checksum does not match its content")
    return header, arrays


def _content(path: Path) -> bytes:
    """Return the content of a file, after checking the size of its header."""
    with open_regular(path) as file:
        _header_size(file.read(8), os.fstat(file.fileno()).st_size)
        file.seek(0)
        return file.read()


def _header_size(start: bytes, n_bytes: int) -> int:
    """Return the size of the header of a file of ``n_bytes``, after checking that it is reasonable."""
    size = int.from_bytes(start[:8], "little")
    if size > LARGEST_HEADER + 2**20:  # text, a picture or another format
        raise ForeignError(f"its header has {size:,} bytes")
    if size > n_bytes:
        raise DamagedError(f"it ends before the {size:,} bytes of its header")
    return size


def _digest(header: dict[str, Any], arrays: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
