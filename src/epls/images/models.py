"""What is inside a fitted model, and data for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from ..data.parts import codes_in_parts
from ..datasets.opening import Opened, Vectors, open_data
from ..utils.types import Indices
from .deep import DeepFeatures
from .features import ImageFeatures

ImageModel: TypeAlias = ImageFeatures | DeepFeatures

_BEFORE: dict[Any, str] = {"grey": "gray", "colour": "color"}  # how version 0.1.0 wrote these in the notes of a model


@dataclass(frozen=True)
class ModelLayer:
    """A layer of units in a model of images, and what its units see of an image.

    Attributes
    ----------
    groups : sequence of ImageFeatures
        What was learned from each group of channels. The units of the layer are the codes of all groups, in this order.
    channels : sequence of ndarray of int
        The channels that the units of each group see.
    n_channels : int
        The number of channels of the layer's images.
    sees : int
        Height and width of the part of an image that a unit sees, in pixels: its receptive field.
    step : int
        Pixels of the image from one position of the layer to the next; the first one is at the image's corner.
    """

    groups: Sequence[ImageFeatures]
    channels: Sequence[Indices]
    n_channels: int
    sees: int
    step: int

    @property
    def n_units(self) -> int:
        """The number of units, of all groups."""
        return sum(group.encoder_.n_codes for group in self.groups)

    @property
    def patch_size(self) -> int:
        """Height and width of a patch, in pixels of the layer's own images."""
        return self.groups[0].patch_size


def image_features(model: Any) -> ImageModel | None:
    """The features of images in a model, which may be the first step of a pipeline; None for a model of vectors."""
    first = model[0] if isinstance(model, Pipeline) else model
    return first if isinstance(first, ImageFeatures | DeepFeatures) else None


def layers_of(features: ImageModel) -> list[ModelLayer]:
    """The layers of fitted features of images, from the images upwards; ``ImageFeatures`` is one layer."""
    if isinstance(features, ImageFeatures):
        n_channels = features.n_channels_
        return [ModelLayer([features], [np.arange(n_channels)], n_channels, features.patch_size, features.stride)]
    found = []
    sees, step = 1, 1  # of a pixel of the layer's images
    for layer in features.layers_:
        sees, step = sees + step * (layer.patch_size - 1), step * layer.stride
        found.append(ModelLayer(layer.features_, layer.channels_, layer.n_channels_, sees, step))
        sees, step = sees + step * (layer.pool - 1), step * layer.cell_step
    return found


def least_side(features: ImageModel, grid: int | None = None) -> int:
    """The least height and width of images that have positions of all layers in each region of a grid.

    Parameters
    ----------
    features : ImageFeatures or DeepFeatures
        Fitted.
    grid : int or None, default=None
        There are grid x grid regions; None takes the features' own grid, as ``transform`` needs it.
    """
    n_regions = features.grid if grid is None else grid
    return max(layer.sees + (n_regions - 1) * layer.step for layer in layers_of(features))


def learner_of(model: Any) -> Any:
    """The learner in a model: that of its features of images, else the model itself or the last step of a pipeline.

    Raises
    ------
    ValueError
        If there are several: those of :func:`layers_of`.
    """
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
    key: str | None = None,
    smallest_side: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> Opened:
    """Open data for a model: images for features of images, else vectors, with the columns that it was fitted on.

    Parameters
    ----------
    model : fitted model
        ImageFeatures, DeepFeatures, a learner, or a pipeline with one of them.
    notes : dict
        What :func:`epls.read_notes` returns. Images are read as those that the model was learned from.
    path, channels, skip_bad, key, smallest_side, progress
        See :func:`epls.datasets.opening.open_data`. ``channels`` takes precedence over the notes.

    Raises
    ------
    ValueError
        If the model is for the other kind of data, or the data cannot be used.
    """
    features = image_features(model)
    folder: dict[str, Any] = {"channels": channels, "skip_bad": skip_bad}
    if features is not None and Path(path).is_dir():
        noted = _noted(notes, "channels", lambda value: isinstance(value, str))
        folder["channels"] = channels or _BEFORE.get(noted, noted)
        folder["expected"] = features.n_channels_
        folder["longest_side"] = _noted(notes, "longest_side", lambda value: type(value) is int and value > 0)
    names = getattr(model, "feature_names_in_", None)
    columns = noted_columns(notes) or (None if names is None else [str(name) for name in names])
    data = open_data(path, smallest_side=smallest_side, key=key, columns=columns, progress=progress, **folder)
    if (features is not None) == isinstance(data, Vectors):
        kinds = ("vectors", "images") if features is None else ("images", "vectors")
        raise ValueError(f"the model was learned from {kinds[0]}, but {path} holds {kinds[1]}")
    return data


def noted_columns(notes: dict[str, Any]) -> list[str] | None:
    """The names of the columns that a model was learned from, if they are noted."""
    columns: list[str] | None = _noted(
        notes,
        "feature_names",
        lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    )
    return columns


def _noted(notes: dict[str, Any], name: str, is_allowed: Callable[[Any], bool]) -> Any:
    """A note that says how data are read: anybody may have written it."""
    value = notes.get(name)
    if value is not None and not is_allowed(value):
        raise ValueError(
            f"the model's note {name!r} is {str(value)[:100]}, which does not say how to read data: save the model "
            f"again without this note"
        )
    return value


def codes_of(model: Any, data: Opened) -> Iterator[NDArray[Any]]:
    """The rows that a model computes for data, some at a time."""
    if isinstance(data, Vectors):
        yield from codes_in_parts(model, data.X)
        return
    features, after = (model[0], model[1:]) if isinstance(model, Pipeline) else (model, None)
    for row in features.iter_transform(data):
        yield row[None] if after is None else after.transform(row[None])
