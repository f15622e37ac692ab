"""Lazy encoding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..blocks import Blocks, RowRange, as_blocks

_ROWS = 4096  # in a piece of work


def transform(model: Any, data: Any) -> Any:
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
    n_codes = len(model.get_feature_names_out())
    if isinstance(data, da.Array):
        if any(np.isnan(size) for size in data.chunks[0]):
            raise ValueError("the dask array does not know the sizes of its blocks: call compute_chunk_sizes() on it")
        rows = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
        pieces = rows.to_delayed().reshape(-1)
        sizes = [int(size) for size in rows.chunks[0]]
    else:
        blocks = as_blocks(data)
        if blocks is None:
            raise TypeError(
                f"data is a {type(data).__name__}, and must be a dask array, a zarr array, or what open_shards gives: "
                f"call the model's own transform for an array in memory"
            )
        starts = range(0, blocks.shape[0], _ROWS)
        pieces = [RowRange(blocks, start, min(start + _ROWS, blocks.shape[0])) for start in starts]
        sizes = [piece.shape[0] for piece in pieces]
    # The model travels once, and not with each piece.
    shared = dask.delayed(model, pure=True)
    codes = [dask.delayed(_codes)(shared, piece) for piece in pieces]
    dtype = _type_of_codes(model, data)
    return da.concatenate(
        [da.from_delayed(code, (size, n_codes), dtype) for code, size in zip(codes, sizes, strict=True)]
    )


def _codes(model: Any, piece: Any) -> Any:
    if isinstance(piece, Blocks):
        piece = np.concatenate([piece.read(number) for number in range(len(piece.sizes))])
    return model.transform(piece)


def _type_of_codes(model: Any, data: Any) -> np.dtype[Any]:
    preserved = model.__sklearn_tags__().transformer_tags.preserves_dtype
    return np.dtype(np.float64 if preserved and data.dtype == np.float64 else np.float32)
