"""Turn samples into codes, block by block: the base class of learners and encoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..utils.threads import map_blocks, row_blocks
from ..utils.types import Array
from .blocks import TYPES, array_blocks, as_blocks, is_dask, joined_rows, stacked, whole_rows
from .samples import working_type

Result = TypeVar("Result")
_ROWS_AT_A_TIME, _BYTES_AT_A_TIME = 4096, 2**26  # at most
# A function from samples to codes. It may keep buffers: its result is valid until the next call.
BlockEncoder: TypeAlias = Callable[[Array], Array]


class SampleTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """An estimator whose ``transform`` encodes each sample on its own.

    A subclass defines its codes in :meth:`block_encoders`.
    """

    @abstractmethod
    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """Return a function that creates encoders for samples of a type, one for each thread.

        Whatever all threads share is prepared here, once. The encoders may have their own buffers. They are called with
        C-contiguous blocks of a few hundred samples.
        """

    def transform(self, X: ArrayLike) -> Any:
        """Encode samples, each on its own.

        Parameters
        ----------
        X : array-like, zarr array, dask array or Blocks of shape (n_samples, n_features)
            Samples. Data that do not fit in memory are read in parts. If the codes do not fit either, use
            :meth:`iter_transform`.

        Returns
        -------
        ndarray or dask array of shape (n_samples, n_codes)
            The codes: float64 for float64 samples, otherwise float32. For a dask array, the result is a lazy dask
            array.
        """
        check_is_fitted(self)
        if is_dask(X):
            return lazy_transform(self, X)
        blocks = as_blocks(X)
        if blocks is None:
            return self._codes(self._checked(X))
        shape = (blocks.shape[0], self._n_features_out)
        return stacked(codes_in_parts(self, blocks), shape, working_type(blocks.dtype))

    def iter_transform(self, X: Any) -> Iterator[Array]:
        """Iterate over the codes of samples, given as for :meth:`transform`, a few thousand at a time.

        The memory that it needs does not grow with the number of samples.
        """
        check_is_fitted(self)
        if as_blocks(X) is not None:
            return codes_in_parts(self, X)
        data = self._checked(X)
        return (self._codes(data[rows]) for rows in row_blocks(len(data), _ROWS_AT_A_TIME))

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        """Return samples as an array of floats or small integers."""
        return np.asarray(validate_data(self, X, dtype=TYPES, reset=False))

    def _codes(self, data: NDArray[Any]) -> Array:
        """Return the codes of checked samples."""
        codes = np.empty((len(data), self._n_features_out), working_type(data.dtype))
        for _ in self._map_codes(data, codes.__setitem__):
            pass
        return codes

    def _map_codes(self, data: NDArray[Any], use: Callable[[slice, Array], Result]) -> Iterator[Result]:
        """Apply ``use`` to the codes of each block of rows, in order, with all threads."""
        dtype = working_type(data.dtype)
        new_encoder, n_codes = self.block_encoders(dtype), self._n_features_out

        def new_worker() -> Callable[[slice], Result]:
            encode = checked_encoder(new_encoder(), n_codes, type(self).__name__)
            return lambda rows: use(rows, encode(np.ascontiguousarray(data[rows], dtype)))

        return self._map_blocks(new_worker, len(data))

    def _map_blocks(self, new_worker: Callable[[], Callable[[slice], Result]], n_rows: int) -> Iterator[Result]:
        """Iterate over the results for all blocks of rows. One thread computes a block, which fits in the cache."""
        return map_blocks(new_worker, n_rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def checked_encoder(encode: BlockEncoder, n_codes: int, name: str) -> BlockEncoder:
    """Return the same function with checks of its codes.

    The codes must be finite and have the expected shape; otherwise kernels would write past the end of an array.
    ``name`` is the name of the encoder, for error messages.
    """

    def checked(samples: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            codes = encode(samples)
            # A sum is finite only if all codes are finite, and needs no memory.
            if codes.shape == (len(samples), n_codes) and (np.isfinite(codes.sum()) or np.isfinite(codes).all()):
                return codes
        if codes.shape != (len(samples), n_codes):
            raise ValueError(
                f"{name} returned codes of shape {codes.shape} for {len(samples)} samples, but must return {n_codes} "
                f"codes each: its components do not match its settings"
            )
        raise ValueError(
            f"{name} returned codes that are not finite: the samples have values of up to {np.abs(samples).max():.2g}, "
            f"but their squares and products with the components must stay below {np.finfo(samples.dtype).max:.1g} in "
            f"{samples.dtype}. Scale them like the data that the components were learned from, or give float64"
        )

    return checked


def codes_in_parts(model: Any, X: Any) -> Iterator[NDArray[Any]]:
    """Iterate over the codes of samples, block by block, from any source."""
    blocks = as_blocks(X) or array_blocks(X)
    n_rows = max(1, min(_ROWS_AT_A_TIME, _BYTES_AT_A_TIME // (8 * max(blocks.shape[1], 1))))
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
    dtype = np.asarray(model.transform(np.zeros((1, *X.shape[1:]), X.dtype))).dtype
    return X.map_blocks(
        _codes_of_block,
        dask.delayed(model, pure=True),  # sent once, not with each block
        dtype,
        chunks=(X.chunks[0], (int(model._n_features_out),)),
        drop_axis=list(range(2, X.ndim)),
        meta=np.empty((0, 0), dtype),
    )


def _codes_of_block(data: Any, model: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.asarray(model.transform(data), dtype)
