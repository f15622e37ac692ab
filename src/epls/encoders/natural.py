"""The learner's own outputs as codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sklearn.utils.metaestimators import available_if

from ..algorithm.layer import UnitLayer
from ..data.encoding import BlockEncoder
from ..utils.types import Array
from .base import Encoder


class NaturalEncoder(Encoder):
    """Use the learner's own ``transform`` as codes: for a layer of units such as EPLS, the outputs f(w·x + b).

    For learners with signed codes, such as ICA or sparse coding, it uses absolute values, because signs would cancel
    out in the sum over a region of an image.

    Parameters
    ----------
    dictionary : fitted learner
        Any learner with ``components_`` and ``transform``. ``ImageFeatures`` sets it.
    split_sign : bool, default=False
        Whether to return two codes for each unit. A layer of units (EPLS, the auto-encoder, the RBM) returns the
        outputs of its units w, followed by those of the mirrored units -w with the same biases. Other learners return
        the positive parts of their codes, followed by the negative parts.

    Examples
    --------
    >>> import numpy as np
    >>> from epls import EPLS, NaturalEncoder
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> model = EPLS(10, random_state=0).fit(X)
    >>> NaturalEncoder(model, split_sign=True).transform(X).shape
    (300, 20)
    """

    def components(self) -> Array:
        """The components of the learner, one per row."""
        components = super().components()
        if not hasattr(self.dictionary, "transform"):
            raise ValueError(
                f"the natural encoder needs a learner with transform, got {type(self.dictionary).__name__}: an array "
                f"of components has no natural code; use another encoder for it"
            )
        return components

    @property
    def n_codes(self) -> int:
        """The number of codes of a sample."""
        learner = self.dictionary
        if hasattr(self, "as_layer"):
            n_outputs = len(self.components())
        elif hasattr(learner, "get_feature_names_out"):
            n_outputs = len(learner.get_feature_names_out())
        else:  # a custom learner may have no names
            n_outputs = np.shape(learner.transform(np.zeros((1, self.n_features))))[1]
        return n_outputs * (2 if self.split_sign else 1)

    @available_if(lambda self: hasattr(self.dictionary, "as_layer"))
    def as_layer(self) -> UnitLayer:
        """Return the layer of units whose outputs are the codes, if the learner is such a layer."""
        layer: UnitLayer = self.dictionary.as_layer()
        return layer

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """Return a function that creates encoders for samples of a type, one for each thread."""
        learner = self.dictionary
        if hasattr(self, "as_layer"):
            layer = self.as_layer()
            # Products are five percent faster when the columns are contiguous in memory.
            layer = replace(layer, weights=np.asfortranarray(layer.weights, dtype))
            return layer.block_encoders(dtype, mirrored=self.split_sign)
        is_ours = hasattr(learner, "block_encoders")
        own_encoders = learner.block_encoders(dtype) if is_ours else lambda: learner.transform

        def new_encoder() -> BlockEncoder:
            codes_of = own_encoders()

            def encode(samples: Array) -> Array:
                codes = np.asarray(codes_of(samples))
                if not self.split_sign:
                    return np.abs(codes)
                return np.hstack([np.maximum(codes, 0), np.maximum(-codes, 0)])

            return encode

        return new_encoder
