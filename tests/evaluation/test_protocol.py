import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from epls.evaluation.paper import TABLE_2, row_for
from epls.evaluation.protocol import judge


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
    one = judge(views[:450, 0].copy(), labels[:450], views[450:, 0].copy(), labels[450:])
    two = judge(views[:450].copy(), labels[:450], views[450:].copy(), labels[450:])
    assert two.accuracy > one.accuracy + 3
    twice = np.repeat(views[:, :1], 2, axis=1)
    same = judge(twice[:450].copy(), labels[:450], twice[450:].copy(), labels[450:])
    assert same.accuracy == pytest.approx(one.accuracy, abs=1.0)
