"""Turn samples into codes, block by block: the base class of learners and encoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..utils.threads import map_blocks, row_blocks
from ..utils.types import Array
from .blocks import TYPES, as_blocks
from .parts import codes_in_parts, transform_in_parts
from .samples import working_type

Result = TypeVar("Result")
_ROWS_AT_A_TIME = 4096
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
        in_parts = transform_in_parts(self, X)
        return self._codes(self._checked(X)) if in_parts is None else in_parts

    def iter_transform(self, X: Any) -> Iterator[Array]:
        """Iterate over the codes of samples, a few thousand at a time, in constant memory.

        Parameters
        ----------
        X : array-like, memory map, zarr array, dask array or Blocks of shape (n_samples, n_features)
            Samples.

        Yields
        ------
        ndarray of shape (some, n_codes)
            The codes of the next samples.
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
