"""What all encoders have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array

from ..algorithm.layer import Layer
from ..utils.threads import map_tasks

Array = NDArray[np.floating]
# Samples to codes. It keeps its buffers: what it returns is valid until it is called again.
BlockEncoder: TypeAlias = Callable[[Array], Array]

# Samples at a time: products of this many rows run at full speed, and their results stay in the cache.
BLOCK_ROWS = 512


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Turns samples into codes by means of a dictionary: a fitted learner, or an array of bases.

    A subclass says what its codes are in :meth:`block_encoders`. Nothing is learned in ``fit``.
    """

    #: The settings that its user has to tune.
    meta_parameters: ClassVar[tuple[str, ...]] = ()
    dictionary: Any
    split_sign: bool

    @abstractmethod
    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """What makes functions from samples of a type to codes: they share the bases, and have buffers of their own.

        Each thread needs one.
        """

    @property
    def n_features(self) -> int:
        """The number of features of a sample."""
        return self.bases().shape[1]

    @property
    def n_codes(self) -> int:
        """The number of codes of a sample."""
        return len(self.bases()) * (2 if self.split_sign else 1)

    @property
    def _n_features_out(self) -> int:
        return self.n_codes

    def bases(self) -> Array:
        """The bases of the dictionary, one a row."""
        if self.dictionary is None:
            raise ValueError(
                f"{type(self).__name__} has no dictionary: give it a fitted learner or an array of shape "
                f"(n_components, n_features); in ImageFeatures it gets the learner by itself"
            )
        for name in ("components_", "cluster_centers_"):
            if hasattr(self.dictionary, name):
                return self._finite(getattr(self.dictionary, name), f"{name} of the dictionary")
        if hasattr(self.dictionary, "fit"):
            raise ValueError(
                f"the dictionary of {type(self).__name__} is a {type(self.dictionary).__name__} without components_: "
                f"fit it first, and wrap it in sklearn.frozen.FrozenEstimator where the encoder will be cloned"
            )
        return self._finite(self.dictionary, "dictionary")

    @staticmethod
    def _finite(bases: Any, name: str) -> Array:
        return np.asarray(check_array(bases, dtype=[np.float64, np.float32], input_name=name))

    def as_layer(self) -> Layer:
        """The bare numbers of codes that are outputs of one layer of units.

        Returns
        -------
        Layer
            If ``split_sign``, the outputs with mirrored bases follow.
        """
        raise ValueError(
            f"the codes of {type(self).__name__} with the bases of {type(self.dictionary).__name__} are not the "
            f"outputs of one layer of units, as other libraries compute them: take the soft threshold, or the natural "
            f"encoder of EPLS, SparseAutoencoder or SparseRBM"
        )

    def fit(self, X: ArrayLike | None = None, y: Any = None) -> Encoder:
        """Check the dictionary; there is nothing to learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or None
            Samples, of which only the shape matters.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self.n_features_in_ = self.n_features
        if X is not None:
            self._checked(X)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """The codes of samples, each by itself.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_codes)
            float32 for float32, else float64.
        """
        data = self._checked(X)
        codes = np.empty((len(data), self.n_codes), data.dtype)
        new_encoder = self.block_encoders(data.dtype)

        def new_worker() -> Callable[[int], None]:
            encode = new_encoder()

            def worker(start: int) -> None:
                codes[start : start + BLOCK_ROWS] = encode(data[start : start + BLOCK_ROWS])

            return worker

        for _ in map_tasks(new_worker, range(0, len(data), BLOCK_ROWS)):
            pass
        return codes

    def _checked(self, X: ArrayLike) -> Array:
        data = np.asarray(check_array(X, dtype=[np.float64, np.float32], order="C"))
        if data.shape[1] != self.n_features:
            raise ValueError(
                f"X has {data.shape[1]} features, but the dictionary of {type(self).__name__} has bases of "
                f"{self.n_features}"
            )
        return data

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Buffer:
    """Room for the rows of one block after the other, made once."""

    def __init__(self, n_columns: int, dtype: np.dtype[np.floating]) -> None:
        self._room = np.empty((0, n_columns), dtype)

    def rows(self, n_rows: int) -> Array:
        if len(self._room) < n_rows:
            self._room = np.empty((n_rows, self._room.shape[1]), self._room.dtype)
        return self._room[:n_rows]
