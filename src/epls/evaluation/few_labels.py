"""Predictions for all samples from a few labels, with a probability for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from ..utils.threads import threads_for
from ..utils.types import Array

_PRINCIPAL_COMPONENTS = 200
_STRENGTHS = np.logspace(-4, 1, 11)
_USUAL_STRENGTH = 0.01  # if there are too few labels to choose it
_FOLDS = 5
_FEWEST_FOR_ACCURACY = 4  # labels of each class


@dataclass(frozen=True)
class Predictions:
    """The predictions of a classifier that learned from some labels.

    ``accuracy`` is the fraction of labelled samples that are classified correctly by classifiers that have not seen
    them. It is None if a class has fewer than four labels.
    """

    labels: NDArray[Any]  # texts: the given label of each sample, or the most probable one
    confidence: Array  # the probability of that label; 1 if it was given
    accuracy: float | None


def classify(features: Array, labels: Sequence[str | None], *, random_state: Any = 0) -> Predictions:
    """Learn from the samples whose label is not None, and predict the labels of the others.

    Features are standardised and reduced to their principal components over all samples, since unlabelled samples also
    show which directions matter. A logistic regression learns from the labelled samples. Cross-validation chooses its
    regularisation by the probability of the correct labels, not by accuracy, so that its probabilities are reliable.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 20, axis=0)
    >>> X += np.random.RandomState(0).normal(scale=0.1, size=X.shape)
    >>> labels = [name if k % 20 < 5 else None for k, name in enumerate(np.repeat(["a", "b", "c"], 20))]
    >>> found = classify(X, labels)
    >>> found.labels[[19, 39, 59]].tolist(), found.accuracy
    (['a', 'b', 'c'], 1.0)
    """
    X = check_array(features, dtype=[np.float32, np.float64])
    if len(labels) != len(X):
        raise ValueError(f"{len(labels)} labels were given for {len(X)} samples: give one for each, or None")
    known = np.flatnonzero([label is not None for label in labels])
    y: NDArray[Any] = np.array([label for label in labels if label is not None], dtype=str)
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        said = "no sample has a label" if len(classes) == 0 else f"all {len(y)} labels are {str(classes[0])!r}"
        raise ValueError(f"{said}: a classifier needs labels of at least two classes")
    parts = StandardScaler().fit_transform(X)
    if parts.any():
        with threads_for(parts.size * min(parts.shape)):
            parts = PCA(min(_PRINCIPAL_COMPONENTS, *parts.shape), random_state=random_state).fit_transform(parts)
        # Strengths mean the same for all features.
        parts *= np.sqrt(_PRINCIPAL_COMPONENTS / np.square(parts).sum(axis=1).mean())
    model, accuracy = _classifier(parts[known], y, int(counts.min()), random_state)
    probabilities = model.predict_proba(parts)
    found = model.classes_[probabilities.argmax(axis=1)].astype(object)
    confidence = probabilities.max(axis=1)
    found[known], confidence[known] = y, 1.0
    return Predictions(found.astype(str), confidence, accuracy)


def _classifier(X: Array, y: NDArray[Any], fewest: int, random_state: Any) -> tuple[Any, float | None]:
    """Return a logistic regression and, if classes are large enough, its accuracy on held-out samples."""
    if fewest < 2:
        return LogisticRegression(C=_USUAL_STRENGTH, max_iter=1000).fit(X, y), None
    folds = StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=random_state)
    search = GridSearchCV(
        LogisticRegression(max_iter=1000),
        {"C": _STRENGTHS},
        scoring=("neg_log_loss", "accuracy"),
        refit="neg_log_loss",
        cv=folds,
    ).fit(X, y)
    accuracy = float(search.cv_results_["mean_test_accuracy"][search.best_index_])
    return search, accuracy if fewest >= _FEWEST_FOR_ACCURACY else None
