"""The base class of all encoders."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..algorithm.layer import UnitLayer
from ..data.blocks import TYPES
from ..data.coder import Coder
from ..utils.sklearn import fit_context
from ..utils.types import Array


class Encoder(Coder):
    """Turn samples into codes with a dictionary: a fitted learner, or an array of components.

    A subclass defines its codes in :meth:`block_encoders`. ``fit`` learns nothing.
    """

    #: The settings that a user has to tune.
    meta_parameters: ClassVar[tuple[str, ...]] = ()
    dictionary: Any
    split_sign: bool
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "dictionary": "no_validation",
        "split_sign": ["boolean"],
    }

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
        """The components of the dictionary, one per row."""
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

    @property
    def is_layer(self) -> bool:
        """Whether the codes are the outputs of one layer of units, :meth:`as_layer`."""
        return False

    def as_layer(self) -> UnitLayer:
        """Return the layer of units whose outputs are the codes.

        Returns
        -------
        UnitLayer
            If ``split_sign`` is set, the outputs of the mirrored units follow.
        """
        raise ValueError(
            f"the codes of {type(self).__name__} with the components of {type(self.dictionary).__name__} are not the "
            f"outputs of one layer of units, which other libraries can compute: use the soft threshold, or the natural "
            f"encoder of EPLS, SparseAutoencoder or SparseRBM"
        )

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | None = None, y: Any = None) -> Encoder:
        """Check the settings and the dictionary; there is nothing to learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or None
            Samples. Only their shape and the names of their features matter.
        y : None
            Ignored.

        Returns
        -------
        self
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
