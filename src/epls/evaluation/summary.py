"""Summaries of a fitted model: figures measured when it is learned, and the facts that it contains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..algorithm.layer import activation_of
from ..datasets.opening import Opened, Vectors
from ..encoders.natural import NaturalEncoder
from ..images.coder import PatchCoder
from ..images.features import ImageFeatures
from ..images.models import ModelLayer, image_features, layers_of, learner_of
from ..images.scan import scan_layers
from ..images.stack import DeepFeatures
from ..metrics import lifetime_sparsity, never_active, population_sparsity, redundancy
from ..utils.threads import row_blocks
from ..utils.types import Array

_SAMPLES = 10_000
_IMAGES = 100  # that samples are drawn from if maps are computed


def model_summary(model: Any, data: Opened) -> dict[str, Any]:
    """Measure a model on the data that it was learned from. The figures are stored in its file and shown.

    They are the kind of data, the numbers of samples, units and epochs, and measures of :mod:`epls.metrics`. With
    several layers, these are in a list of the layers, together with their mean, total or largest value.
    """
    about: dict[str, Any] = {"kind": "images", "skipped": len(getattr(data, "skipped", ()))}
    if isinstance(model, DeepFeatures):
        images = model.fitting_images(data)  # type: ignore[arg-type]
        some = images.some(np.arange(min(_IMAGES, len(images))) * len(images) // min(_IMAGES, len(images)))
        answers = scan_layers(model.coders(), some, _SAMPLES)
        layers = [
            layer_summary([group.estimator_ for group in layer.groups], layer.n_units, answers[k].codes)
            for k, layer in enumerate(layers_of(model))
        ]
    else:
        learner = learner_of(model)
        if isinstance(data, Vectors):
            codes = model.transform(data.some(_SAMPLES))
            about = {"kind": "vectors", "feature_names": data.columns}
        else:
            codes = NaturalEncoder(learner).transform(model.draw_patches(data, _SAMPLES, random_state=0))
        layers = [layer_summary([learner], len(learner.components_), codes)]
    combined: dict[str, Callable[[list[Any]], Any]] = {
        "units": sum,
        "epochs": _largest,
        "population sparsity": _mean,
        "lifetime sparsity": _mean,
        "never active units": sum,
        "largest redundancy": max,
    }
    total = {name: combine([layer[name] for layer in layers]) for name, combine in combined.items()}
    return about | {"samples": len(data)} | total | ({"layers": layers} if isinstance(model, DeepFeatures) else {})


def layer_summary(learners: Sequence[Any], n_units: int, codes: Array) -> dict[str, Any]:
    """Return the figures of a layer whose units were learned by one learner, or by one for each group."""
    found = {
        "population sparsity": float(population_sparsity(codes).mean()),
        "lifetime sparsity": float(lifetime_sparsity(codes).mean()),
        "never active units": len(never_active(codes, activation_of(learners[0]))),
        "largest redundancy": max(float(redundancy(learner.components_).max()) for learner in learners),
    }
    epochs = _largest([getattr(learner, "n_iter_", None) for learner in learners])
    return {"units": n_units, "epochs": epochs, **{name: round(value, 4) for name, value in found.items()}}


def _largest(numbers: Sequence[int | None]) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def model_facts(model: Any, notes: dict[str, Any]) -> dict[str, Any]:
    """Describe a model: its classes, sizes, settings, and the notes of its file (:func:`epls.read_notes`)."""
    steps = getattr(model, "steps", [("", model)])
    kind = ", ".join(type(step).__name__ for _, step in steps)
    facts: dict[str, Any] = {"kind": kind if steps[0][1] is model else f"Pipeline of {kind}"}
    features = image_features(model)
    if features is None:
        learner = learner_of(model)
        facts["learner"] = type(learner).__name__
        if hasattr(learner, "components_"):
            facts["units"], facts["values a unit sees"] = learner.components_.shape
        facts |= _training([learner])
    else:
        layers, coders = layers_of(features), features.coders()
        settings = features.get_params(deep=False)
        facts |= {
            "units": sum(layer.n_units for layer in layers),
            "features of an image": features._n_features_out,
            "smallest image": f"{features.smallest_side()} x {features.smallest_side()} pixels",
            "settings": {name: value for name, value in settings.items() if name not in ("estimator", "layers")},
            "layers": [_layer_facts(*of) for of in zip(layers, [*coders[:-1], None], strict=True)],
        }
    if notes.get("feature_names"):
        facts["columns"] = notes["feature_names"]
    told = {"kind", "units", "epochs", "feature_names"}
    measured = {key: value for key, value in notes.items() if key not in told and value not in (None, [])}
    return facts | {"measured when it was learned": measured or "nothing: the file was not written by epls fit"}


def _layer_facts(layer: ModelLayer, mapped: PatchCoder | None) -> dict[str, Any]:
    """Describe a layer, and how its map for the next layer is made, if there is one."""
    below = "pixels" if layer.sees == layer.patch_size else "pixels of the map below"
    learners = [group.estimator_ for group in layer.groups]
    facts = {
        "learner": type(learners[0]).__name__,
        "units": layer.n_units,
        "groups": len(learners),
        "channels that a unit sees": f"{len(layer.channels[0])} of {layer.n_channels}",
        "patches": f"{layer.patch_size} x {layer.patch_size} {below}",
        "part of the image that a unit sees": f"{layer.sees} x {layer.sees} pixels",
        "encoder": type(layer.groups[0].encoder_).__name__,
    }
    if mapped is not None:
        pool, every = mapped.geometry.pool, mapped.geometry.pool_stride
        facts["map for the next layer"] = f"{mapped.map_pooling} pooling of {pool} x {pool} positions, every {every}"
    return facts | _training(learners)


def _training(learners: Sequence[Any]) -> dict[str, Any]:
    """Describe how one learner, or one for each group, was trained."""
    facts: dict[str, Any] = {}
    if epochs := _largest([getattr(learner, "n_iter_", None) for learner in learners]):
        facts["epochs"] = epochs
    curves = [getattr(learner, "loss_curve_", []) for learner in learners]
    if all(curves):
        facts["error, first and last"] = [float(np.mean([curve[epoch] for curve in curves])) for epoch in (0, -1)]
    return facts | {"settings of the learner": learners[0].get_params(deep=False)}


def never_active_units(features: ImageFeatures, images: Any, n_patches: int = _SAMPLES, random_state: int = 0) -> int:
    """Count the units that are never active for some patches; see :func:`epls.metrics.never_active`."""
    patches = features.draw_patches(images, n_patches, random_state=random_state)
    encoder, activation = NaturalEncoder(features.estimator_), activation_of(features.estimator_)
    codes = (encoder.transform(patches[some]) for some in row_blocks(len(patches), _SAMPLES))
    largest = np.max([(np.abs(c) if activation is None else c).max(axis=0) for c in codes], axis=0)
    return len(never_active(largest[np.newaxis], activation))
