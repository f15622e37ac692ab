"""The base class of estimators that turn images into features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..data.parts import is_dask, lazy_transform
from ..utils.fields import Saved
from ..utils.types import Array
from .collection import ImageCollection, Images


class ImageTransformer(Saved, TransformerMixin, BaseEstimator, ABC):
    """An estimator whose ``transform`` returns a row of features for each image, pooled over a grid of regions."""

    grid: int

    @abstractmethod
    def fitting_images(self, X: Images) -> ImageCollection:
        """Return images after checking that ``transform`` can encode them."""

    @abstractmethod
    def _rows(self, images: ImageCollection, *, held: bool) -> Iterator[Array]:
        """Iterate over the features of each image; ``held`` says whether a user holds the iterator."""

    @abstractmethod
    def _n_codes_by_name(self) -> dict[str, int]:
        """Return, for each layer in the order of the features, the prefix of their names and the number of codes."""

    def transform(self, X: Images) -> Array:
        """Compute the features of images.

        Parameters
        ----------
        X : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
            Images. Their sizes may differ, but each must have a patch in every region, in every layer. They are read
            when needed. A dask array is not computed.

        Returns
        -------
        ndarray or dask array of float32 of shape (n_images, n_features)
            The codes of each region, region by region, row by row of the grid. The features of the first layer come
            first, then those of the next.
        """
        if is_dask(X):
            check_is_fitted(self)
            return lazy_transform(self, X)
        images = self.fitting_images(X)
        features = np.empty((len(images), self._n_features_out), np.float32)
        for place, row in zip(features, self._rows(images, held=False), strict=True):
            place[...] = row
        return features

    def iter_transform(self, X: Images) -> Iterator[Array]:
        """Iterate over the features of images, for more images than fit in memory.

        Parameters
        ----------
        X : as for :meth:`transform`
            Images.

        Yields
        ------
        ndarray of float32 of shape (n_features,)
            The features of an image.
        """
        return self._rows(self.fitting_images(X), held=True)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features: layer (if there are several), row and column of the region, code.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            The names of the features.
        """
        check_is_fitted(self)
        places = [(row, column) for row in range(self.grid) for column in range(self.grid)]
        names = [
            f"{name}region{row}{column}_code{code}"
            for name, n_codes in self._n_codes_by_name().items()
            for row, column in places
            for code in range(n_codes)
        ]
        return np.asarray(names, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return self.grid**2 * sum(self._n_codes_by_name().values())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags
