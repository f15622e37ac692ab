"""The page about a collection of images or vectors: a map, groups, neighbours, outliers, duplicates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.utils import check_array, check_random_state

from ..datasets.labels import Label
from ..datasets.opening import Vectors
from ..images.models import ImageModel, feature_rows, image_features, layers_of
from ..images.reading import ImageCollection, Images
from ..images.recipes import learned_features
from ..plotting import filter_pictures
from ..utils.threads import threads_for
from ..utils.types import Array, Indices, Progress
from ..utils.wording import counted
from .duplicates import duplicate_pictures, duplicate_vectors
from .page import packed, page, sheet_of, short, shrunk
from .similarity import (
    N_TYPICAL,
    Group,
    GroupKind,
    comparable,
    described,
    directions,
    framed,
    grid_positions,
    grouped,
    map_positions,
    outliers,
    shares,
    similarity,
    traits,
)
from .thumbnails import LOOKS, looks, thumbnails_of

_FEWEST = 3
_MOST_OUTLIERS = 200
_MOST_PAIRS = 2000
_TRAITS_OF_A_SAMPLE = 5
_N_UNITS = 6
_FILTER_SIDE = 24
_STAGES = 4
_N_CODES = 64  # numbers of a sample that the page's classifier knows


@dataclass(frozen=True)
class Learned:
    """Features that :func:`explore` learns from the images themselves, without labels.

    Parameters
    ----------
    layers : {1, 2} or None, default=None
        The number of layers. None chooses one or two from the number of images.
    mirror : bool, default=True
        Whether an image and its mirror image count as the same. Do not use it for digits and letters.
    """

    layers: int | None = None
    mirror: bool = True


@dataclass(frozen=True)
class Computed:
    """Features that were computed before.

    Parameters
    ----------
    rows : array-like of shape (n_samples, n_features)
        A row for each sample.
    source : str
        Where they are from. The page says it, as in "1,280 features of the network efficientnet_lite0".
    model : fitted model or None, default=None
        What computed them. The page shows the filters of image features.
    """

    rows: Any
    source: str = "given"
    model: Any = None


def explore(
    data: Images,
    *,
    features: Any = None,
    labels: Sequence[Label | str | None] | None = None,
    groups: int | GroupKind = "auto",
    metric: Literal["standardized", "cosine"] = "standardized",
    positions: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "What is in these data",
    random_state: Any = 0,
    progress: Progress = lambda stage, done, total: None,
) -> str:
    """Create a page to look through a collection of images or vectors, and to label some of them.

    The page shows a map on which similar samples are close to each other, groups with their typical samples and
    distinguishing properties, the nearest neighbours of any sample, outliers and near-duplicates. Samples can be
    selected on the map, listed and labelled.

    Parameters
    ----------
    data : images or array-like of shape (n_samples, n_columns)
        Images, as :class:`epls.ImageFeatures` accepts them, or vectors. At least three.
    features : Learned, fitted model, array-like of shape (n_samples, n_features), Computed or None, default=None
        What samples are compared by: features that are learned from the images, those that a model's ``transform``
        computes, or an array of them, which :class:`Computed` may describe. None is the same as ``Learned()``, which
        compares vectors by their columns.
    labels : sequence of Label, str or None, default=None
        The known class of each sample, or None for unknown. None as a whole means that no class is known.
    groups : int, "auto", "balanced" or "density", default="auto"
        The number of groups of equal size; "balanced" chooses it from the number of samples, at most 24. With
        "density", groups are the dense regions of the map. "auto" chooses them if they are clear: none has more than
        half of the samples, at most a fifth of the samples are outside, and at most 5 % of those inside are halfway
        between two of them. Otherwise, the groups are balanced.
    metric : {"standardized", "cosine"}, default="standardized"
        How features are compared: standardised and reduced to at most 100 principal components, or by the cosine of
        the features as they are. Networks whose embeddings are meant to be compared say so: choose "cosine" for them.
    positions : array-like of shape (n_samples, 2) or None, default=None
        The x and y of each sample on the map, x to the right and y upwards, such as those of UMAP or of places on
        Earth. None places similar samples close to each other.
    names : sequence of str or None, default=None
        A name for each sample. By default, file names or numbers.
    columns : sequence of str or None, default=None
        The names of the columns of vectors.
    title : str
        The heading of the page.
    random_state : int, RandomState instance or None, default=0
        Determines everything that is random.
    progress : callable, optional
        Called with the stage, the number of steps done and the total number of steps.

    Returns
    -------
    str
        A self-contained HTML page.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> html = explore(iris.data, columns=iris.feature_names, title="Iris flowers")
    >>> "Iris flowers" in html
    True
    """
    if groups not in get_args(GroupKind) and not (isinstance(groups, int) and groups >= 1):
        raise ValueError(f"groups={groups!r}: give a number of groups, 'auto', 'balanced' or 'density'")
    random = check_random_state(random_state)
    vectors = _as_vectors(data)
    samples = ImageCollection(data, 1) if vectors is None else vectors
    n_samples = len(samples)
    if n_samples < _FEWEST:
        said = counted(n_samples, "samples")
        raise ValueError(f"the data have {said}, but a map needs at least {_FEWEST}: give more")
    if metric not in ("standardized", "cosine"):
        raise ValueError(f"metric={metric!r}: give 'standardized' or 'cosine'")
    content = _about_names(samples, names) | _about_labels(labels, n_samples)
    places = None if positions is None else check_array(positions)
    if places is not None and places.shape != (n_samples, 2):
        raise ValueError(f"positions has shape {places.shape}, but must have shape {(n_samples, 2)}: give x and y")
    if places is not None:  # y of a screen is down; sums of very large numbers overflow
        places = places / (np.abs(places).max() or 1.0) * [1, -1]
    rows, model, basis = _features(data, vectors, features, random, progress)
    if len(rows) != n_samples:
        raise ValueError(f"features has {len(rows)} rows, but there are {n_samples} samples: give a row for each")
    shown: NDArray[Any]
    if isinstance(samples, ImageCollection):
        shown, about = thumbnails_of(samples, progress)
    else:
        shown, about = samples, _about_columns(samples, columns)
    turned = not isinstance(features, Learned) or features.mirror
    progress("arrange", 0, _STAGES)
    X = directions(rows) if metric == "cosine" else comparable(rows, random, keep_length=vectors is not None)
    content |= about | _analysis(rows, X, shown, turned, model, groups, places, random, progress, content["labels"])
    content["codes"] = packed_codes(X, metric, random)
    content["basis"] = basis if metric == "standardized" else f"the cosine of {basis}"
    progress("arrange", _STAGES, _STAGES)
    # What people label on the page is kept in their browser, for pages of the same samples only.
    known = [content["names"], content["codes"], content["labels"]]
    content["digest"] = hashlib.sha256(json.dumps(known, allow_nan=False).encode()).hexdigest()
    scripts = ("map", "classifier", "labels", "explore", "gestures")
    return page("explore", title, content, scripts=scripts, styles=("explore",))


def _as_vectors(data: Any) -> Array | None:
    """Return the data as an array of rows, if they are vectors."""
    if hasattr(data, "__array__") and len(getattr(data, "shape", ())) == 2:
        return check_array(data, dtype=[np.float32, np.float64])
    return None


def _features(
    data: Any, vectors: Array | None, features: Any, random: np.random.RandomState, progress: Progress
) -> tuple[Array, ImageModel | None, str]:
    """Return a row for each sample, the image model that computed them if there is one, and a description."""
    if features is None or isinstance(features, Learned):
        if vectors is not None:
            return vectors, None, f"{vectors.shape[1]:,} columns"
        options = asdict(features or Learned())
        found = learned_features(data, **options, random_state=random.randint(2**31 - 1), progress=progress)
        features = Computed(found[0], "learned from them without labels", found[1])
    elif hasattr(features, "transform"):
        samples = data if vectors is None else Vectors(vectors)
        features = Computed(feature_rows(features, samples, progress), "of a model", features)
    elif not isinstance(features, Computed):
        features = Computed(features)
    rows = check_array(features.rows, dtype=[np.float32, np.float64])
    model = image_features(features.model)
    if model is None:
        return rows, None, f"{rows.shape[1]:,} features {features.source}"
    return rows, model, f"{_about_units(model)}, {features.source}"


def _about_units(model: ImageModel) -> str:
    n_units = [layer.n_units for layer in layers_of(model)]
    layers = "one layer" if len(n_units) == 1 else f"{len(n_units)} layers"
    return f"{sum(n_units):,} units of {layers}"


def _about_names(samples: ImageCollection | Array, names: Sequence[str] | None) -> dict[str, Any]:
    n_samples = len(samples)
    if names is None and isinstance(samples, ImageCollection):
        names = getattr(samples.images, "names", None)
    column = "row" if names is None else "file"
    if names is None:
        names = [str(number) for number in range(n_samples)]
    if len(names) != n_samples:
        raise ValueError(f"{len(names)} names were given for {n_samples} samples: give one for each")
    return {"count": n_samples, "names": [str(name) for name in names], "nameColumn": column}


def _about_labels(labels: Sequence[Label | str | None] | None, n_samples: int) -> dict[str, Any]:
    if labels is None:
        return {"labels": None}
    if len(labels) != n_samples:
        raise ValueError(f"{len(labels)} labels were given for {n_samples} samples: give one for each, or None")
    found = [Label(label) if isinstance(label, str) else label for label in labels]
    classes = sorted({label.label for label in found if label is not None})
    number = {name: k for k, name in enumerate(classes)}
    of_sample = np.array([-1 if label is None else number[label.label] for label in found])
    confidence = np.array([0 if label is None else round(100 * label.confidence) for label in found])
    given = np.array([label is not None and label.given for label in found])
    return {
        "labels": {
            "classes": classes,
            "of": packed(of_sample, np.int32),
            "confidence": packed(confidence, np.uint8),
            "given": packed(given, np.uint8),
            # Counted in groups: those that people gave. The page predicts the others by itself, and may differ.
            "each": [label.label if label is not None and label.given else None for label in found],
        }
    }


def _analysis(
    rows: Array,
    X: Array,
    shown: NDArray[Any],
    turned: bool,
    model: ImageModel | None,
    groups: int | GroupKind,
    places: Array | None,
    random: np.random.RandomState,
    progress: Progress,
    labels: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return what the features reveal: the map, groups, nearest samples, outliers and duplicates.

    ``X`` are the rows that are compared, and ``places`` the positions on the map if they are given.
    Shown are vectors, or images by the fingerprints of :func:`thumbnails_of`. With ``turned``, mirrored and rotated
    copies of images are duplicates.
    """
    are_images = shown.ndim > 2
    found = similarity(X)
    progress("arrange", 1, _STAGES)
    positions = map_positions(X, random) if places is None else framed(places)
    progress("arrange", 2, _STAGES)
    numbers, kind = grouped(X, positions, groups, random)
    found_groups = described(X, numbers)
    cells = grid_positions(positions)
    progress("arrange", 3, _STAGES)
    copies = duplicate_pictures(shown, turned=turned) if are_images else duplicate_vectors(found)
    of_labels = shares(labels.pop("each"), found_groups) if labels else [[]] * len(found_groups)
    about = [
        {
            "size": len(group.members),
            "typical": group.typical.tolist(),
            "next": group.next_to,
            "between": group.between[:N_TYPICAL].tolist(),
            "labels": counts[:_TRAITS_OF_A_SAMPLE],
            "traits": [],
            "units": [],
        }
        for group, counts in zip(found_groups, of_labels, strict=True)
    ]
    units = None
    if are_images:
        # What people would see first: brighter, more colorful and so on.
        for entry, strongest in zip(about, traits(looks(shown), found_groups), strict=True):
            entry["traits"] = [LOOKS[look][0 if difference > 0 else 1] for look, difference in strongest]
        units = None if model is None else _add_units(about, found_groups, rows, model)
    else:
        for entry, strongest in zip(about, traits(shown, found_groups), strict=True):
            entry["columns"] = [[column, short(difference)] for column, difference in strongest]
    far, times = outliers(found)
    return {
        "positions": packed(np.rint(positions * 65535), np.uint16),
        "cells": packed(cells, np.uint16),
        "cellsAcross": int(cells.max()) + 1,
        "group": packed(numbers, np.int16),
        "groups": about,
        "groupKind": kind,
        "groupsChosen": groups == "auto",
        "units": units,
        "duplicates": {
            "pairs": [[first, second, short(score)] for first, second, score in copies.pairs[:_MOST_PAIRS]],
            "least": copies.least,
            "usual": short(copies.usual),
            "turned": turned,
        },
        "nearest": packed(found.nearest, np.uint32),
        "cosines": packed(np.rint(100 * np.clip(found.cosines, 0, 1)), np.uint8),
        "nNearest": found.nearest.shape[1],
        "outliers": [[int(far[k]), short(times[k])] for k in range(min(len(far), _MOST_OUTLIERS))],
    }


def packed_codes(X: Array, metric: str, random: np.random.RandomState) -> dict[str, Any]:
    """Return 64 bytes for each row that is compared, and their scales: the page predicts labels from them.

    They are principal components. :func:`comparable` divides each by the square root of its standard deviation, which
    suits neighbours but not a classifier: here it is multiplied again.
    """
    parts = np.zeros((len(X), 1))
    if np.ptp(X, axis=0).any():
        with threads_for(X.size * min(X.shape)):
            parts = PCA(min(_N_CODES, *X.shape), random_state=random).fit_transform(X)
    if metric == "standardized":
        parts *= parts.std(axis=0)
    scales = np.abs(parts).max(axis=0) / 127
    whole = np.rint(parts / np.where(scales > 0, scales, 1))
    return {"values": packed(whole, np.int8), "scales": scales.tolist()}


def _add_units(
    about: list[dict[str, Any]], groups: Sequence[Group], rows: Array, model: ImageModel
) -> dict[str, Any] | None:
    """Add the units of the first layer that respond most to each group, and return the sheet of filters."""
    layer = layers_of(model)[0]
    if len(layer.groups) != 1 or not hasattr(layer.groups[0].estimator_, "components_"):
        return None
    first, encoder = layer.groups[0], layer.groups[0].encoder_
    components = encoder.components()
    n_regions = model.grid**2
    if len(components) == 0 or encoder.n_codes % len(components) or rows.shape[1] < n_regions * encoder.n_codes:
        return None
    # The codes of all regions, and of a unit and its negation, belong to one filter.
    codes = rows[:, : n_regions * encoder.n_codes].reshape(len(rows), -1, len(components)).mean(axis=1)
    for entry, strongest in zip(about, traits(codes, groups, n_traits=len(components)), strict=True):
        more = [(unit, difference) for unit, difference in strongest if difference > 0][:_N_UNITS]
        entry["units"] = [[unit, short(difference)] for unit, difference in more]
    size = first.patch_size
    tiles = filter_pictures(components.reshape(-1, size, size, layer.n_channels))
    return sheet_of(shrunk(tiles, _FILTER_SIDE))


def _about_columns(vectors: Array, columns: Sequence[str] | None) -> dict[str, Any]:
    """Return the most unusual columns of each vector, with their values."""
    n_columns = vectors.shape[1]
    if columns is not None and len(columns) != n_columns:
        raise ValueError(f"{len(columns)} column names were given for {n_columns} columns: give one for each")
    names = [f"column {k}" for k in range(n_columns)] if columns is None else [str(name) for name in columns]
    deviations = vectors.std(axis=0)
    unusual = np.abs(vectors - vectors.mean(axis=0)) / np.where(deviations > 0, deviations, np.inf)
    strongest: Indices = np.argsort(-unusual, axis=1, kind="stable")[:, :_TRAITS_OF_A_SAMPLE]
    return {
        "kind": "vectors",
        "columns": names,
        "nUnusual": strongest.shape[1],
        "unusual": packed(strongest, np.uint32),
        "values": packed(np.take_along_axis(vectors, strongest, axis=1), np.float32),
    }
