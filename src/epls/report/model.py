"""The page about a model: its units, what excites them, and how sparse and balanced its responses are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from ..images.models import image_features, learner_of
from ..images.reading import Images
from ..images.stack import DeepFeatures
from ..utils.sklearn import safe_indexing
from . import pictures
from .content import (
    TOP,
    charts_of,
    checked_codes,
    figures_of,
    measures_of,
    n_samples_for,
    of_units,
    sheet_of,
    short,
    some_of,
    summary_of,
)
from .images import of_images
from .page import page
from .stack import of_stack
from .units import unit_statistics

_TOP_FEATURES = 8
_Progress: TypeAlias = Callable[[str, int, int], None]


def model_page(
    model: Any,
    X: Images,
    *,
    title: str = "What was learned",
    feature_names: Sequence[str] | None = None,
    random_state: Any = 0,
    progress: _Progress = lambda stage, done, total: None,
) -> str:
    """Create a page that shows what a model has learned, on samples of data.

    Parameters
    ----------
    model : fitted ImageFeatures, DeepFeatures, learner, or Pipeline that begins or ends with one of these
        The model.
    X : images for ImageFeatures and DeepFeatures, else array-like of shape (n_samples, n_features)
        Data to show the responses of the units. Up to 30,000 patches of 200 images (300 for several layers), or 30,000
        samples, are drawn.
    title : str
        The heading of the page.
    feature_names : sequence of str or None, default=None
        The names of the features of vectors. By default, those that the model was fitted with, or numbers.
    random_state : int, RandomState or None, default=0
        Determines which samples are drawn.
    progress : callable, optional
        Called with the stage, the number of steps done and the total number of steps.

    Returns
    -------
    str
        A self-contained HTML page.
    """
    check_is_fitted(model)
    random = check_random_state(random_state)
    progress("report", 0, 2)
    content = _content(model, X, feature_names, random, progress)
    progress("report", 1, 2)
    html = page("model", title, content)
    progress("report", 2, 2)
    return html


def _content(
    model: Any, X: Images, names: Sequence[str] | None, random: np.random.RandomState, progress: _Progress
) -> dict[str, Any]:
    features = image_features(model)
    if features is None:
        return {"layers": [_of_vectors(model, X, names, random)], "images": []}
    if isinstance(features, DeepFeatures):
        return of_stack(features, X, random, progress)
    return of_images(features, X, random)


def _of_vectors(model: Any, X: Any, names: Sequence[str] | None, random: np.random.RandomState) -> dict[str, Any]:
    learner = learner_of(model)
    if not hasattr(learner, "components_"):
        raise ValueError(f"a {type(learner).__name__} has no units to show: give a learner or ImageFeatures")
    components = np.asarray(learner.components_)
    numbers = np.sort(random.permutation(len(X))[: n_samples_for(len(components))])
    samples = safe_indexing(X, numbers)  # supports data frames
    if not hasattr(samples, "columns"):
        samples = check_array(samples)
    codes = checked_codes(np.asarray(model.transform(samples)), components)
    statistics = unit_statistics(codes, components, n_top=TOP)
    names = _feature_names(model, components.shape[1], names)
    strongest = np.argsort(-np.abs(components), axis=1, kind="stable")[:, :_TOP_FEATURES]
    content = of_units(statistics, "samples")
    content["kind"] = "vectors"
    content["tiles"] = sheet_of(pictures.bar_tiles(components))
    content["features"] = [
        [[names[k], short(components[unit, k])] for k in features] for unit, features in enumerate(strongest)
    ]
    content["top"] = [
        [{"sample": int(numbers[k]), "answer": short(abs(codes[k, unit]))} for k in tops]
        for unit, tops in enumerate(statistics.strongest)
    ]
    seen = some_of(len(codes), len(X), "samples")
    content["facts"] = [
        ["Model", f"{type(learner).__name__}, {len(components)} units"],
        ["A unit sees", f"{components.shape[1]} features"],
        ["Shown here", seen],
        ["Outputs", "the learner's own" + (", after the steps before it" if learner is not model else "")],
        *figures_of(statistics, "samples"),
    ]
    about = f"{type(learner).__name__}, {len(components):,} units of {components.shape[1]:,} features"
    content["summary"] = summary_of(statistics, about, seen)
    content["charts"] = charts_of([learner], statistics)
    content["measures"] = measures_of(content)
    return content


def _feature_names(model: Any, n_features: int, names: Sequence[str] | None) -> list[str]:
    """Return the names of the learner's inputs: the columns, or the outputs of the steps before it."""
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        names = model[:-1].get_feature_names_out(names)
    elif names is None:
        names = [f"x{k}" for k in range(n_features)]
    if len(names) != n_features:
        raise ValueError(
            f"{len(names)} feature_names were given, but the learner has {n_features} features: give one for each"
        )
    return [str(name) for name in names]
