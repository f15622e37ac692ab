"""Encoding data that come in parts: block by block here, or lazily by dask wherever it computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import Blocks, RowRange, as_blocks

_ROWS = 4096  # at a time


def transform_in_parts(model: Any, X: Any) -> Any:
    """The codes of data in blocks, as an array, or as a dask array if the data are one; None for all other data."""
    if is_dask(X):
        return lazy_transform(model, X)
    blocks = as_blocks(X)
    if blocks is None:
        return None
    codes = np.empty((blocks.shape[0], len(model.get_feature_names_out())), _type_of_codes(model, blocks))
    end = 0
    for part in codes_in_parts(model, blocks):
        codes[end : end + len(part)] = part
        end += len(part)
    return codes


def codes_in_parts(model: Any, X: Any) -> Iterator[NDArray[Any]]:
    """The codes of some thousand samples after the other, whatever the data are read from."""
    blocks = as_blocks(X)
    if blocks is None:
        for start in range(0, len(X), _ROWS):
            yield model.transform(X[start : start + _ROWS])
        return
    for piece in _pieces(blocks):
        yield model.transform(_rows(piece))


def lazy_transform(model: Any, data: Any) -> Any:
    """The codes of data as a dask array, which is computed when and where it is needed.

    Parameters
    ----------
    model : fitted model
        Anything with ``transform`` and ``get_feature_names_out``: EPLS, another learner, ImageFeatures.
    data : dask array, or Blocks such as open_shards gives, zarr array or memory map
        Samples in rows, or images. Nothing is read yet. Blocks of a dask array stay what they are; other data are read
        by the workers, each its part.

    Returns
    -------
    dask.array.Array of float32 or float64, of shape (n_samples, n_codes)
        The codes. ``to_zarr`` writes them from the workers; ``compute`` brings them here.
    """
    try:
        import dask
        import dask.array as da
    except ImportError as error:
        raise ImportError('lazy arrays need dask: pip install "epls[distributed]"') from error
    pieces: list[Any]
    if is_dask(data):
        if any(np.isnan(size) for size in data.chunks[0]):
            raise ValueError("the dask array does not know the sizes of its blocks: call compute_chunk_sizes() on it")
        data = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
        pieces, sizes = list(data.to_delayed().reshape(-1)), [int(size) for size in data.chunks[0]]
    else:
        blocks = as_blocks(data)
        if blocks is None:
            raise TypeError(
                f"data is a {type(data).__name__}, and must be a dask array, a zarr array, or what open_shards gives: "
                f"call the model's own transform for an array in memory"
            )
        pieces = list(_pieces(blocks))
        sizes = [piece.shape[0] for piece in pieces]
    shape, dtype = (len(model.get_feature_names_out()),), _type_of_codes(model, data)
    shared = dask.delayed(model, pure=True)  # it travels once, and not with each piece
    codes = (dask.delayed(_codes)(shared, piece) for piece in pieces)
    return da.concatenate(
        [da.from_delayed(code, (size, *shape), dtype) for code, size in zip(codes, sizes, strict=True)]
    )


def is_dask(X: Any) -> bool:
    """Whether data are a dask array; without loading dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "to_delayed")


def _pieces(blocks: Blocks) -> Iterator[RowRange]:
    for start in range(0, blocks.shape[0], _ROWS):
        yield RowRange(blocks, start, min(start + _ROWS, blocks.shape[0]))


def _rows(piece: Blocks) -> NDArray[Any]:
    return np.concatenate([piece.read(number) for number in range(len(piece.sizes))])


def _codes(model: Any, piece: Any) -> Any:
    return model.transform(_rows(piece) if isinstance(piece, Blocks) else piece)


def _type_of_codes(model: Any, data: Any) -> np.dtype[Any]:
    preserved = model.__sklearn_tags__().transformer_tags.preserves_dtype
    return np.dtype(np.float64 if "float64" in preserved and data.dtype == np.float64 else np.float32)
