import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from epls.paper.judge import cross_validated, judge
from epls.paper.table import TABLE_2, row_for


def test_is_what_scikit_learn_gives_with_the_same_penalties():
    """With an intercept as free as LinearSVC can have it, and the C that was chosen."""
    random = np.random.RandomState(0)
    labels = np.arange(400) % 4
    features = random.standard_normal((400, 30)) * np.geomspace(1, 50, 30) + labels[:, None] * np.geomspace(0.6, 20, 30)
    train, test = np.arange(200), np.arange(200, 400)
    verdict = judge(features[train], labels[train], features[test], labels[test])
    svc = LinearSVC(intercept_scaling=50, tol=1e-6, max_iter=100_000, random_state=0)
    grid = {"linearsvc__C": verdict.C * np.logspace(-1, 1, 3)}
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(make_pipeline(StandardScaler(), svc), grid, cv=cv).fit(features[train], labels[train])
    svc.set_params(C=verdict.C)
    expected = make_pipeline(StandardScaler(), svc).fit(features[train], labels[train])
    assert verdict.accuracy == pytest.approx(100 * expected.score(features[test], labels[test]), abs=0.5)
    assert search.cv_results_["mean_test_score"][1] >= search.best_score_ - 0.01


def test_features_that_tell_nothing_are_at_chance():
    random = np.random.RandomState(0)
    labels = np.arange(600) % 3
    features = random.standard_normal((600, 5))
    assert 20 < judge(features[:300], labels[:300], features[300:], labels[300:]).accuracy < 47


@pytest.mark.parametrize("classifier", ["svm", "least_squares"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_features_are_not_changed(dtype, classifier):
    """The same test features for each fold, as one would pass them."""
    random = np.random.RandomState(0)
    labels = np.arange(400) % 4
    means = np.eye(4)[labels] @ random.normal(size=(4, 30))
    features = (5 * (random.standard_normal((400, 30)) + means)).astype(dtype)
    before, test = features.copy(), features[200:]
    folds = [random.permutation(200)[:100] for _ in range(3)]
    found = [judge(features[fold], labels[fold], test, labels[200:], classifier) for fold in folds]
    train = features[:200]
    judge(train, labels[:200], test, labels[200:], classifier)
    np.testing.assert_array_equal(features, before)
    for fold, verdict in zip(folds, found, strict=True):
        assert verdict == judge(before[fold], labels[fold], before[200:].copy(), labels[200:], classifier)
        assert verdict.accuracy > 60
    cross_validated(features, labels)
    np.testing.assert_array_equal(features, before)


def test_many_samples_are_scaled_by_blocks(monkeypatch):
    random = np.random.RandomState(0)
    labels = np.arange(120) % 2
    features = random.normal(size=(120, 3)) + labels[:, None]
    whole = judge(features[:60], labels[:60], features[60:], labels[60:])
    monkeypatch.setattr("epls.paper.judge._BLOCK_SAMPLES", 7)
    assert judge(features[:60], labels[:60], features[60:], labels[60:]).accuracy == whole.accuracy


def test_the_papers_table():
    assert len(TABLE_2) == 12
    assert row_for("epls", "natural", split_sign=True, whiten=False).accuracy == 56.9
    assert row_for("epls", "triangle", split_sign=False, whiten=False) is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_decisions_about_two_views_are_added(n_classes):
    """Two views with noise of their own tell more than one; with equal views nothing is gained or lost."""
    random = np.random.RandomState(0)
    labels = np.arange(900) % n_classes
    signal = np.eye(n_classes)[labels] @ random.normal(size=(n_classes, 20))
    views = signal[:, None] + 3 * random.normal(size=(900, 2, 20))
    one = judge(views[:450, 0], labels[:450], views[450:, 0], labels[450:])
    two = judge(views[:450], labels[:450], views[450:], labels[450:])
    assert two.accuracy > one.accuracy + 3
    twice = np.repeat(views[:, :1], 2, axis=1)
    same = judge(twice[:450], labels[:450], twice[450:], labels[450:])
    assert same.accuracy == pytest.approx(one.accuracy, abs=1.0)
