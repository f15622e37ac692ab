"""The base class of all encoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..algorithm.layer import Buffer
from ..data.blocks import TYPES
from ..data.encoding import BlockEncoder, SampleTransformer
from ..utils.sklearn import fit_context
from ..utils.threads import product
from ..utils.types import Array


class Encoder(SampleTransformer):
    """Turn samples into codes with a dictionary: a fitted learner, or an array of components.

    A subclass defines its codes in :meth:`block_encoders`. If they are the outputs of one layer of units, ``as_layer``
    returns this layer, and torch and ONNX can compute them too; with ``split_sign``, the outputs of the mirrored units
    follow. ``fit`` learns nothing.
    """

    #: The settings that a user has to tune.
    meta_parameters: ClassVar[tuple[str, ...]] = ()
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "dictionary": "no_validation",
        "split_sign": ["boolean"],
    }

    def __init__(self, dictionary: Any = None, *, split_sign: bool = False) -> None:
        self.dictionary = dictionary
        self.split_sign = split_sign

    @property
    def n_features(self) -> int:
        """The number of features of a sample."""
        return self.components().shape[1]

    @property
    def n_codes(self) -> int:
        """The number of codes of a sample."""
        return len(self.components()) * (2 if self.split_sign else 1)

    @property
    def _n_features_out(self) -> int:
        return self.n_codes

    def components(self) -> Array:
        """Return the components of the dictionary, one per row."""
        if self.dictionary is None:
            raise ValueError(
                f"{type(self).__name__} has no dictionary: give it a fitted learner or an array of shape "
                f"(n_components, n_features); ImageFeatures passes its learner automatically"
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
    def _finite(components: Any, name: str) -> Array:
        return np.asarray(check_array(components, dtype=[np.float64, np.float32], input_name=name))

    def product_encoders(
        self, columns: Array, to_codes: Callable[[Array, Array, Array], object]
    ) -> Callable[[], BlockEncoder]:
        """Return a function that creates encoders which need the products of samples and ``columns``.

        ``to_codes(samples, products, codes)`` writes the codes.
        """

        def new_encoder() -> BlockEncoder:
            products, codes = Buffer(columns.shape[1], columns.dtype), Buffer(self.n_codes, columns.dtype)

            def encode(samples: Array) -> Array:
                found = codes.rows(len(samples))
                to_codes(samples, product(samples, columns, products.rows(len(samples))), found)
                return found

            return encode

        return new_encoder

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | None = None, y: Any = None) -> Encoder:
        """Check the settings and the dictionary; there is nothing to learn.

        Of samples, if there are any, only the shape and the names of features matter.
        """
        if X is None:
            self.n_features_in_ = self.n_features
            self.__dict__.pop("feature_names_in_", None)
        else:
            validate_data(self, X, dtype=TYPES)
            self._check_width(self.n_features_in_)
        return self

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        data = super()._checked(X)
        self._check_width(data.shape[1])
        return data

    def _check_width(self, n_features: int) -> None:
        if n_features != self.n_features:
            raise ValueError(
                f"X has {n_features} features, but the dictionary of {type(self).__name__} has components of "
                f"{self.n_features}"
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
