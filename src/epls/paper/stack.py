"""The layers of a stack in an experiment, whose features are added to those of its single layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encoders.base import Encoder
from ..evaluation.comparison import Progress
from ..images.recipes import tell_epochs
from ..images.stack import DeepFeatures, usual_layers
from ..learners.base import Learner
from ..utils.types import Array
from .cache import Cache

_SAMPLE = 1000  # images that are checked for features that never change


class Stack:
    """Learned layers and their features of sets of images, kept in a cache.

    All layers have the ``learner`` with its own whitening and encoder; the highest has ``encoder``, unless it is None.
    ``mirror`` averages the "features" of an image and its mirror image, or keeps both for "decisions". ``inputs``
    identifies the images to learn from, ``unlabelled``. ``seconds`` has the times of learning, and of encoding so far.
    """

    def __init__(
        self,
        learner: Learner,
        encoder: Encoder | None,
        n_layers: int,
        grid: int,
        mirror: str | None,
        seed: int,
        unlabelled: Any,
        inputs: dict[str, Any],
        cache: Cache,
        progress: Progress,
    ) -> None:
        height, width = unlabelled.shape[1:3]
        own: dict[str, Any] = {"encoder": learner.own_encoder, "whiten": learner.whitens}
        layers = usual_layers(height, width, n_layers=n_layers, estimator=learner, **own)
        self._views, self._cache, self._progress = mirror == "decisions", cache, progress
        self._inputs = inputs | {"layers": [repr(layer.get_params()) for layer in layers], "grid": grid, "seed": seed}

        def learned() -> DeepFeatures:
            tell_epochs(layers, progress)
            return DeepFeatures(layers, grid=grid, random_state=seed).fit(unlabelled)

        self._features, seconds = cache.model(self._inputs, learned)
        if encoder is not None:
            self._features = self._features.with_encoder(unlabelled, encoder)
            self._inputs |= {"highest": [type(encoder).__name__, repr(encoder.get_params())]}
        self._features.mirror = mirror is not None
        self.seconds = {"learn": seconds, "encode": 0.0}

    def encoded(self, stage: str, images: Any, name: str) -> NDArray[np.float32]:
        """Return the features (n_images, n_features) of images; for mirrored decisions, (n_images, 2, n_features).

        ``name`` identifies the images.
        """
        features = self._features
        collection = features.fitting_images(images)

        def rows(start: int) -> Iterator[Array]:
            self._progress(stage, start, len(images))
            for number, views in enumerate(features.views(collection, start, held=False), start + 1):
                self._progress(stage, number, len(images))
                yield views if self._views else views.mean(axis=0)

        shape = (len(images), *([2] if self._views else []), features._n_features_out)
        inputs = self._inputs | {"images": name, "mirror": features.mirror, "views": self._views}
        found, seconds = self._cache.rows(inputs, shape, rows)
        self.seconds["encode"] += seconds
        return found

    def facts(self, encoded: NDArray[np.float32]) -> list[dict[str, int]]:
        """Return the number of units of each layer, and of those whose features never change over some images."""
        found, start = [], 0
        sample = np.asarray(encoded[:_SAMPLE]).reshape(-1, encoded.shape[-1])
        for layer in self._features.layers_:
            stop = start + self._features.grid**2 * layer.n_codes
            ranges = np.ptp(sample[:, start:stop], axis=0).reshape(-1, layer.n_codes).max(axis=0)
            found.append({"n_units": layer.n_codes, "n_unresponsive": int(np.sum(ranges == 0))})
            start = stop
        return found
