"""The content of a fitted model, and data for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline

from ..data.encoding import codes_in_parts
from ..datasets.opening import Opened, Vectors, open_data
from ..datasets.tables import TABLES
from ..utils.types import Array, Indices, Progress
from .features import ImageFeatures
from .pooling import receptive_fields
from .stack import DeepFeatures

ImageModel: TypeAlias = ImageFeatures | DeepFeatures


@dataclass(frozen=True)
class ModelLayer:
    """A layer of units in an image model, and the part of an image that its units see.

    The units are the codes of all ``groups``, in this order. In pixels of the image, ``sees`` is the side of the part
    that a unit sees (its receptive field), and ``step`` the way from one position of the layer to the next.
    """

    groups: Sequence[ImageFeatures]
    channels: Sequence[Indices]  # that the units of each group see
    n_channels: int  # of the layer's images
    sees: int
    step: int

    @property
    def n_units(self) -> int:
        """The number of units in all groups."""
        return sum(group.encoder_.n_codes for group in self.groups)

    @property
    def patch_size(self) -> int:
        """Height and width of a patch, in pixels of the layer's own images."""
        return self.groups[0].patch_size


def image_features(model: Any) -> ImageModel | None:
    """Return the image features in a model, which may be the first step of a pipeline; None for vectors."""
    first = model[0] if isinstance(model, Pipeline) else model
    return first if isinstance(first, ImageFeatures | DeepFeatures) else None


def layers_of(features: ImageModel) -> list[ModelLayer]:
    """Return the layers of fitted image features, from the images upwards; ``ImageFeatures`` is one layer."""
    if isinstance(features, ImageFeatures):
        n_channels = features.n_channels_
        return [ModelLayer([features], [np.arange(n_channels)], n_channels, features.patch_size, features.stride)]
    fields = receptive_fields([layer.geometry for layer in features.layers_])
    return [
        ModelLayer(layer.features_, layer.channels_, layer.n_channels_, sees, step)
        for layer, (sees, step) in zip(features.layers_, fields, strict=True)
    ]


def learner_of(model: Any) -> Any:
    """Return the only learner in a model: of its image features, or else the model or the last step of a pipeline."""
    features = image_features(model)
    if features is None:
        return model[-1] if isinstance(model, Pipeline) else model
    learners = [group.estimator_ for layer in layers_of(features) for group in layer.groups]
    if len(learners) > 1:
        raise ValueError(f"the model has {len(learners)} learners, one for each group of each layer: see its layers")
    return learners[0]


def open_data_for(
    model: Any,
    notes: dict[str, Any],
    path: str | os.PathLike[str],
    *,
    channels: Any = None,
    skip_bad: bool = False,
    follow_links: bool = False,
    key: str | None = None,
    smallest_side: int = 1,
    progress: Progress | None = None,
) -> Opened:
    """Open data for a model: images for image features, otherwise vectors with the columns it was fitted on.

    ``notes`` (see :func:`epls.read_notes`) say how images were read when the model was learned; ``channels`` takes
    precedence over them. The other settings are those of :func:`epls.datasets.opening.open_data`.
    """
    features = image_features(model)
    folder: dict[str, Any] = {"channels": channels, "skip_bad": skip_bad, "follow_links": follow_links}
    if features is not None and Path(path).is_dir():
        folder["channels"] = channels or _noted(notes, "channels", lambda value: isinstance(value, str))
        folder["expected"] = features.n_channels_
        folder["longest_side"] = _noted(notes, "longest_side", lambda value: type(value) is int and value > 0)
    names = getattr(model, "feature_names_in_", None)
    columns = noted_columns(notes) or (None if names is None else [str(name) for name in names])
    if Path(path).suffix.lower() not in TABLES:
        columns = None
    data = open_data(path, smallest_side=smallest_side, key=key, columns=columns, progress=progress, **folder)
    if (features is not None) == isinstance(data, Vectors):
        kinds = ("vectors", "images") if features is None else ("images", "vectors")
        raise ValueError(
            f"the model was learned from {kinds[0]}, but {path} holds {kinds[1]}: give data of the same kind"
        )
    if isinstance(data, Vectors) and data.X.shape[1] != getattr(model, "n_features_in_", data.X.shape[1]):
        raise ValueError(
            f"{path} has {data.X.shape[1]} columns, but the model was learned from {model.n_features_in_}: give data "
            f"with the same columns"
        )
    return data


def noted_columns(notes: dict[str, Any]) -> list[str] | None:
    """Return the names of the columns that a model was learned from, if they are in the notes."""
    columns: list[str] | None = _noted(
        notes,
        "feature_names",
        lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    )
    return columns


def _noted(notes: dict[str, Any], name: str, is_allowed: Callable[[Any], bool]) -> Any:
    """Return a checked note about how to read data; the notes may be untrusted."""
    value = notes.get(name)
    if value is not None and not is_allowed(value):
        raise ValueError(
            f"the model's note {name!r} is {str(value)[:100]}, which does not say how to read data: save the model "
            f"again without this note"
        )
    return value


def codes_of(model: Any, data: Opened) -> Iterator[NDArray[Any]]:
    """Iterate over the rows that a model computes for data, some at a time."""
    if isinstance(data, Vectors):
        yield from codes_in_parts(model, data.X)
        return
    features, after = (model[0], model[1:]) if isinstance(model, Pipeline) else (model, None)
    for row in features.iter_transform(data):
        yield row[None] if after is None else after.transform(row[None])


def feature_rows(model: Any, data: Any, progress: Progress) -> Array:
    """Return all rows that a model computes for data, in memory, and report progress."""
    rows: list[Array] = []
    n_done = 0
    some: Any
    for some in codes_of(model, data):
        rows.append(np.asarray(some.toarray() if sparse.issparse(some) else some, np.float32))
        n_done += len(rows[-1])
        progress("encode", n_done, len(data))
    return np.concatenate(rows)
