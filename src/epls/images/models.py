"""What is inside a fitted model, and data for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from ..data.parts import codes_in_parts
from ..datasets.opening import Opened, Vectors, open_data
from .features import ImageFeatures

_BEFORE: dict[Any, str] = {"grey": "gray", "colour": "color"}  # how version 0.1.0 wrote these in the notes of a model


def image_features(model: Any) -> ImageFeatures | None:
    """The features of images in a model, which may be the first step of a pipeline; None for a model of vectors."""
    first = model[0] if isinstance(model, Pipeline) else model
    return first if isinstance(first, ImageFeatures) else None


def learner_of(model: Any) -> Any:
    """The learner in a model: that of its features of images, else the model itself or the last step of a pipeline."""
    features = image_features(model)
    if features is not None:
        return features.estimator_
    return model[-1] if isinstance(model, Pipeline) else model


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
        ImageFeatures, a learner, or a pipeline with one of them.
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
