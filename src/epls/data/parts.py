"""Encode data in parts: block by block in this process, or lazily by dask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..utils.threads import row_blocks
from .blocks import Blocks, array_blocks, as_blocks, package_of, stacked, whole_rows

_ROWS, _BYTES = 4096, 2**26  # at a time, at most


def transform_in_parts(model: Any, X: Any) -> Any:
    """Return the codes of data in blocks as an array, those of a dask array as a dask array; None for other data."""
    if is_dask(X):
        return lazy_transform(model, X)
    blocks = as_blocks(X)
    if blocks is None:
        return None
    shape = (blocks.shape[0], n_codes_of(model))
    return stacked(codes_in_parts(model, blocks), shape, _type_of_codes(model, blocks))


def codes_in_parts(model: Any, X: Any) -> Iterator[NDArray[Any]]:
    """Iterate over the codes of samples, block by block, from any source."""
    blocks = as_blocks(X)
    if blocks is None:
        blocks = array_blocks(X)
    n_rows = max(1, min(_ROWS, _BYTES // (8 * max(blocks.shape[1], 1))))
    for rows in joined_rows(blocks, n_rows):
        for some in row_blocks(len(rows), n_rows):
            codes = model.transform(rows[some])
            yield codes if sparse.issparse(codes) else np.asarray(codes)


def lazy_transform(model: Any, X: Any) -> Any:
    """Return the codes of the samples or images in a dask array as a dask array with the same blocks, not yet computed.

    ``to_zarr`` writes them from the workers of a cluster; ``compute`` returns them to this process.
    """
    import dask

    X = whole_rows(X)
    n_codes, dtype = n_codes_of(model), _type_of_codes(model, X)
    shared = dask.delayed(model, pure=True)  # sent once, not with each block
    return X.map_blocks(
        _codes,
        shared,
        dtype,
        chunks=(X.chunks[0], (n_codes,)),
        drop_axis=list(range(2, X.ndim)),
        meta=np.empty((0, 0), dtype),
    )


def is_dask(X: Any) -> bool:
    """Return whether data are a dask array, without importing dask."""
    return package_of(X) == "dask" and hasattr(X, "to_delayed")


def n_codes_of(model: Any) -> int:
    """Return the number of codes of a fitted model, without creating a name for each."""
    n_codes = getattr(model, "_n_features_out", None)
    return len(model.get_feature_names_out()) if n_codes is None else int(n_codes)


def joined_rows(blocks: Blocks, n_rows: int) -> Iterator[NDArray[Any]]:
    """Iterate over the rows of consecutive blocks that have at most ``n_rows`` together. Each block is read once."""
    waiting: list[NDArray[Any]] = []
    n_waiting = 0
    for number, size in enumerate(blocks.sizes):
        if waiting and n_waiting + size > n_rows:
            yield np.concatenate(waiting)
            waiting, n_waiting = [], 0
        waiting.append(blocks.read(number))
        n_waiting += int(size)
    yield np.concatenate(waiting)


def _codes(data: Any, model: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.asarray(model.transform(data), dtype)


def _type_of_codes(model: Any, data: Any) -> np.dtype[Any]:
    """Return the type of the model's codes, from those of a sample of zeros."""
    return np.asarray(model.transform(np.zeros((1, *data.shape[1:]), data.dtype))).dtype
