"""Predictions for all samples from a few labels, with a probability for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from ..utils.threads import threads_for
from ..utils.types import Array, Indices

_PRINCIPAL_COMPONENTS = 200
_STRENGTHS = np.logspace(-4, 1, 11)
_USUAL_STRENGTH = 0.01  # if there are too few labels to choose it
_FOLDS = 5
_FEWEST_FOR_ACCURACY = 4  # labels of each class
_LOG_SHARPNESS = 1 / 3  # how far from 0 it usually is: its standard deviation before any label is seen
_INTERVAL = 0.95


@dataclass(frozen=True)
class Predictions:
    """The predictions of a classifier that learned from some labels.

    ``accuracy`` is the fraction of labelled samples that are classified correctly by classifiers that have not seen
    them, and ``interval`` is a 95 % confidence interval of it. Both are None if a class has fewer than four labels.
    """

    labels: NDArray[Any]  # texts: the given label of each sample, or the most probable one
    confidence: Array  # the probability of that label; 1 if it was given
    accuracy: float | None
    interval: tuple[float, float] | None


def classify(features: Array, labels: Sequence[str | None], *, random_state: Any = 0) -> Predictions:
    """Learn from the samples whose label is not None, and predict the labels of the others.

    Features are standardised and reduced to their principal components over all samples, since unlabelled samples also
    show which directions matter. A logistic regression learns from the labelled samples. Cross-validation chooses its
    regularisation by the probability of the correct labels, not by accuracy. Then all logits are multiplied by one
    number, which makes the correct labels of held-out samples most probable: so a probability is the share of such
    predictions that are correct. With few labels, the number stays close to 1.

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
    with threads_for(len(y) * parts.shape[1] * len(classes)):
        model, sharpness, correct = _classifier(parts[known], y, int(counts.min()), random_state)
    probabilities = softmax(sharpness * _log(model.predict_proba(parts)), axis=1)
    found = classes[probabilities.argmax(axis=1)].astype(object)
    confidence = probabilities.max(axis=1)
    found[known], confidence[known] = y, 1.0
    if counts.min() < _FEWEST_FOR_ACCURACY:
        return Predictions(found.astype(str), confidence, None, None)
    accuracy = float(correct.mean())
    return Predictions(found.astype(str), confidence, accuracy, _interval(accuracy, len(y), min(_FOLDS, counts.min())))


def _interval(accuracy: float, n_samples: int, n_folds: int) -> tuple[float, float]:
    """Return Wilson's interval, with fewer samples than there are.

    Classifiers of different folds share most of their samples, so what they get right is not independent. Nadeau and
    Bengio (2003) multiply the variance of the mean over folds by 1 + n_folds * n_test / n_train, where n_test / n_train
    is 1 / (n_folds - 1).
    """
    n = n_samples / (1 + n_folds / (n_folds - 1))
    z = norm.ppf((1 + _INTERVAL) / 2)
    middle = accuracy + z**2 / (2 * n)
    half = z * np.sqrt(accuracy * (1 - accuracy) / n + z**2 / (4 * n**2))
    return float((middle - half) / (1 + z**2 / n)), float((middle + half) / (1 + z**2 / n))


def _classifier(
    X: Array, y: NDArray[Any], fewest: int, random_state: Any
) -> tuple[LogisticRegression, float, NDArray[np.bool_]]:
    """Return a logistic regression, what to multiply its logits by, and which samples are right when held out."""
    if fewest < 2:
        return LogisticRegression(C=_USUAL_STRENGTH, max_iter=1000).fit(X, y), 1.0, np.zeros(len(y), np.bool_)
    folds = StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=random_state)
    splits = list(folds.split(X, y))
    models = [LogisticRegression(C=strength, max_iter=1000) for strength in _STRENGTHS]
    held_out = [_log(cross_val_predict(model, X, y, cv=splits, method="predict_proba")) for model in models]
    number = np.unique(y, return_inverse=True)[1]
    losses = [_log_loss(logits, number, 1.0) for logits in held_out]
    best = int(np.argmin(losses))
    sharpness = _sharpness(held_out[best], number)
    return models[best].fit(X, y), sharpness, held_out[best].argmax(axis=1) == number


def _log(probabilities: Array) -> Array:
    return np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))


def _log_loss(logits: Array, y: Indices, sharpness: float) -> float:
    sharp = sharpness * logits
    return float(np.sum(logsumexp(sharp, axis=1) - sharp[np.arange(len(y)), y]))


def _sharpness(logits: Array, y: Indices) -> float:
    """Return the most probable factor for logits of held-out samples: its logarithm has a normal prior around 0."""

    def cost(logarithm: float) -> float:
        return _log_loss(logits, y, np.exp(logarithm)) + (logarithm / _LOG_SHARPNESS) ** 2 / 2

    return float(np.exp(minimize_scalar(cost, bounds=(-3, 3), method="bounded").x))
