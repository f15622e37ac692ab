"""Judge features by a linear classifier that is trained on some images and tested on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from ..evaluation.svm import chosen_labels, svm_for
from ..utils.threads import row_blocks
from ..utils.types import Array
from .least_squares import LeastSquaresCV

Labels = NDArray[np.int64]

_BLOCK_SAMPLES = 5_000  # that are scaled at a time


@dataclass(frozen=True)
class Verdict:
    """The percentage of test images that a classifier classified correctly, and the C or the penalty that it chose."""

    accuracy: float
    C: float | None = None
    penalty: float | None = None


def judge(train: Array, train_labels: Labels, test: Array, test_labels: Labels, classifier: str = "svm") -> Verdict:
    """Train the paper's classifier on features and test it on others.

    Features are (n_samples, n_features), or (n_samples, 2, n_features) for two views of each sample: the classifier
    then learns from both, and its decisions about both are added.

    Features are standardised by mean and variance of the training samples. The classifier is linear and one-vs-all.
    "svm" has the squared hinge loss, and its C is chosen by cross-validation on the training samples, see
    :func:`~epls.evaluation.svm.svm_for`. "least_squares" has the squared loss, see :class:`LeastSquaresCV`.
    """
    n_views, n_features = (train.shape[1] if train.ndim == 3 else 1), train.shape[-1]
    rows, tested = train.reshape(-1, n_features), test.reshape(-1, n_features)
    scaler = _fitted_scaler(rows)
    model: Any = LeastSquaresCV() if classifier == "least_squares" else svm_for(train_labels, n_views)
    scaled = _scaled(scaler, rows)
    del train, rows  # only the scaled copy is needed from here on
    model.fit(scaled, np.repeat(train_labels, n_views))
    # A block at a time: a scaled copy of all test samples would take as much memory as the samples.
    blocks = row_blocks(len(tested), _BLOCK_SAMPLES)
    margins = np.concatenate([model.decision_function(scaler.transform(tested[some])) for some in blocks])
    predicted = chosen_labels(model.classes_, margins.reshape(len(test), n_views, *margins.shape[1:]).sum(axis=1))
    accuracy = 100 * float(np.mean(predicted == test_labels))
    return Verdict(accuracy, getattr(model, "C_", None), getattr(model, "alpha_", None))


def cross_validated(features: Array, labels: Labels) -> float:
    """Return the percentage classified correctly in cross-validation with the best C, to compare features."""
    classifier = svm_for(labels).fit(_scaled(_fitted_scaler(features), features), labels)
    return 100 * float(classifier.scores_.mean(axis=0).max())


def _fitted_scaler(features: Array) -> StandardScaler:
    """Learn means and variances a few samples at a time: ``partial_fit`` makes a copy in double precision."""
    scaler = StandardScaler()
    for some in row_blocks(len(features), _BLOCK_SAMPLES):
        scaler.partial_fit(features[some])
    return scaler


def _scaled(scaler: StandardScaler, features: Array) -> Array:
    """Return scaled features as one new array."""
    found = np.empty(features.shape, np.float32 if features.dtype == np.float32 else np.float64)
    for some in row_blocks(len(features), _BLOCK_SAMPLES):
        found[some] = scaler.transform(features[some])
    return found
