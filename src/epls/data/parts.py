"""Encode data in parts: block by block in this process, or lazily by dask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..utils.threads import row_blocks
from .blocks import ArrayBlocks, Blocks, as_blocks, package_of, whole_rows

_ROWS, _BYTES = 4096, 2**26  # at a time, at most


def transform_in_parts(model: Any, X: Any) -> Any:
    """Return the codes of data in blocks as an array, those of a dask array as a dask array; None for other data."""
    if is_dask(X):
        return lazy_transform(model, X)
    blocks = as_blocks(X)
    if blocks is None:
        return None
    codes = np.empty((blocks.shape[0], n_codes_of(model)), _type_of_codes(model, blocks))
    end = 0
    for part in codes_in_parts(model, blocks):
        codes[end : end + len(part)] = part
        end += len(part)
    return codes


def codes_in_parts(model: Any, X: Any) -> Iterator[NDArray[Any]]:
    """Iterate over the codes of samples, block by block, from any source."""
    blocks = as_blocks(X)
    if blocks is None:
        blocks = ArrayBlocks(X)
    n_rows = _rows_at_a_time(blocks)
    for first, last in _runs(blocks):
        rows = _read(blocks, first, last)
        for some in row_blocks(len(rows), n_rows):
            codes = model.transform(rows[some])
            yield codes if sparse.issparse(codes) else np.asarray(codes)


def lazy_transform(model: Any, data: Any) -> Any:
    """Return the codes of data as a dask array, which is computed on demand.

    Parameters
    ----------
    model : fitted model
        Anything with ``transform`` and ``get_feature_names_out``: EPLS, another learner, ImageFeatures.
    data : dask array, Blocks as returned by open_shards, zarr array or memory map
        Samples in rows, or images. Nothing is read yet. The blocks of a dask array are kept; each worker reads its part
        of other data.

    Returns
    -------
    dask.array.Array of float32 or float64, of shape (n_samples, n_codes)
        The codes. ``to_zarr`` writes them from the workers; ``compute`` returns them to this process.
    """
    try:
        import dask
        import dask.array as da
    except ImportError as error:
        raise ImportError('lazy arrays require dask: pip install "epls[distributed]"') from error
    pieces: list[Any]
    if package_of(data) == "zarr" and data.ndim > 2:
        data = da.from_zarr(data)
    if is_dask(data):
        data = whole_rows(data)
        pieces, sizes = [(piece,) for piece in data.to_delayed().reshape(-1)], [int(n) for n in data.chunks[0]]
    else:
        blocks = as_blocks(data, smallest_map=0)
        if blocks is None:
            raise TypeError(
                f"data is a {type(data).__name__}, but must be a dask array, a zarr array, or the result of "
                f"open_shards: call the model's own transform for an array in memory"
            )
        shared_blocks = dask.delayed(blocks, pure=True)
        runs = list(_runs(blocks))
        pieces = [(shared_blocks, first, last) for first, last in runs]
        sizes = [int(blocks.sizes[first:last].sum()) for first, last in runs]
    n_codes, dtype = n_codes_of(model), _type_of_codes(model, data)
    shared = dask.delayed(model, pure=True)  # sent once, not with each piece
    codes = (dask.delayed(_codes)(shared, dtype, *piece) for piece in pieces)
    return da.concatenate(
        [da.from_delayed(code, (size, n_codes), dtype) for code, size in zip(codes, sizes, strict=True)]
    )


def is_dask(X: Any) -> bool:
    """Return whether data are a dask array, without importing dask."""
    return package_of(X) == "dask" and hasattr(X, "to_delayed")


def n_codes_of(model: Any) -> int:
    """Return the number of codes of a fitted model, without creating a name for each."""
    n_codes = getattr(model, "_n_features_out", None)
    return len(model.get_feature_names_out()) if n_codes is None else int(n_codes)


def _rows_at_a_time(blocks: Blocks) -> int:
    return max(1, min(_ROWS, _BYTES // (8 * max(blocks.shape[1], 1))))


def _runs(blocks: Blocks) -> Iterator[tuple[int, int]]:
    """Return runs of consecutive blocks to read together, as (first, last + 1). Each block is read once."""
    n_rows, first, gathered = _rows_at_a_time(blocks), 0, 0
    for number, size in enumerate(blocks.sizes):
        if gathered + size > n_rows and gathered > 0:
            yield first, number
            first, gathered = number, 0
        gathered += int(size)
    yield first, len(blocks.sizes)


def _read(blocks: Blocks, first: int, last: int) -> NDArray[Any]:
    if last - first == 1:
        return blocks.read(first)
    return np.concatenate([blocks.read(number) for number in range(first, last)])


def _codes(model: Any, dtype: np.dtype[Any], data: Any, *run: int) -> NDArray[Any]:
    """Encode an array or a run of blocks. The worker that encodes blocks also reads them, so they are not sent."""
    return np.asarray(model.transform(_read(data, *run) if run else data), dtype)


def _type_of_codes(model: Any, data: Any) -> np.dtype[Any]:
    """Return the type of the model's codes, from those of a sample of zeros."""
    return np.asarray(model.transform(np.zeros((1, *data.shape[1:]), data.dtype))).dtype
