"""A classifier for few labels: right where it can be, and as sure as it is right."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binomtest
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import log_loss

from epls.evaluation.few_labels import _interval, _sharpness, classify


def some_labels(y, per_class, seed=0):
    random = np.random.RandomState(seed)
    known = np.concatenate([random.permutation(np.flatnonzero(y == label))[:per_class] for label in np.unique(y)])
    return known, [str(label) if k in set(known) else None for k, label in enumerate(y)]


@pytest.mark.parametrize("per_class", [1, 3, 10])
def test_blobs_are_told_apart(per_class):
    X, y = make_blobs(300, 8, centers=4, random_state=0)
    known, labels = some_labels(y, per_class)
    found = classify(X, labels)
    assert np.mean(found.labels == y.astype(str)) > 0.95
    assert (found.confidence[known] == 1).all()
    assert (found.accuracy is None) == (found.interval is None) == (per_class < 4)


def test_given_labels_are_kept_even_if_they_are_odd():
    X, y = make_blobs(100, 3, centers=2, random_state=0)
    _, labels = some_labels(y, 10)
    odd = next(k for k, label in enumerate(labels) if label == "0")
    labels[odd] = "1"
    assert classify(X, labels).labels[odd] == "1"


def test_confidence_means_something():
    """Of predictions that are as sure as p, about p are right: measured on digits with noise."""
    X, y = load_digits(return_X_y=True)
    X = X + np.random.RandomState(0).normal(scale=8, size=X.shape)
    known, labels = some_labels(y, 20)
    found = classify(X, labels)
    rest = np.setdiff1d(np.arange(len(y)), known)
    correct, confidence = found.labels[rest] == y[rest].astype(str), found.confidence[rest]
    assert 0.3 < correct.mean() < 0.95
    assert abs(correct.mean() - confidence.mean()) < 0.1
    assert abs(found.accuracy - correct.mean()) < 0.1
    sure = confidence > np.median(confidence)
    assert correct[sure].mean() > correct[~sure].mean() + 0.2


def test_held_out_labels_correct_a_confidence_that_is_too_low():
    """Strong regularisation alone is too careful; the factor is that of scikit-learn's log-loss, found by a search."""
    random = np.random.RandomState(0)
    y = random.randint(3, size=400)
    logits = random.normal(size=(400, 3)) + 2 * np.eye(3)[y]  # whose probabilities are those of the factor 2
    tried = np.linspace(0.5, 4, 351)
    losses = [log_loss(y, softmax(factor * logits, axis=1)) for factor in tried]
    assert _sharpness(logits, y) == pytest.approx(tried[np.argmin(losses)], abs=0.15)
    assert _sharpness(logits, y) == pytest.approx(2, abs=0.4)


def test_few_labels_hardly_change_the_confidence():
    """Three held-out samples that are all right would make any factor, however large, better than a smaller one."""
    assert 1 < _sharpness(np.eye(3), np.arange(3)) < 1.5


def test_the_interval_is_wilsons_of_fewer_samples():
    """Of five folds, 90 samples count as 40: SciPy's interval for 30 of 40 that are right."""
    expected = binomtest(30, 40).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(_interval(0.75, 90, 5), expected, rtol=1e-6)
    low, high = _interval(1.0, 20, 5)
    assert 0.5 < low < high == pytest.approx(1)


def test_a_sample_far_away_has_a_finite_confidence():
    X, y = make_blobs(60, 3, centers=2, random_state=0)
    X[-1] = 1e6
    _, labels = some_labels(y, 5)
    assert np.isfinite(classify(X, [*labels[:-1], None]).confidence).all()


@pytest.mark.parametrize(
    ("labels", "message"),
    [([None] * 4, "no sample has a label"), (["a", "a", None, None], "all 2 labels are 'a'"), (["a"], "1 labels .* 4")],
)
def test_what_is_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        classify(np.eye(4), labels)
