"""The SVM against scikit-learn's: its choice of C, what users do with it, and what they do wrong."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from svm_problems import free_scaling, gradients, linear_svc, made_up, objectives

from epls.evaluation.svm import L2SVMCV


@parametrize_with_checks([L2SVMCV(Cs=[0.1, 1], cv=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(return_X_y=True)
    return StandardScaler().fit_transform(X[:300]), y[:300]


class TestOptimum:
    @pytest.mark.parametrize("n_classes", [2, 10])
    def test_is_that_of_linear_svc(self, n_classes):
        """tests/solvers/test_svms.py has many more."""
        X, y = made_up(60, 100, n_classes)
        ours, theirs = L2SVMCV(intercept_scaling=1, Cs=0.03).fit(X, y), linear_svc(0.03).fit(X, y)
        assert ours.coef_.shape == theirs.coef_.shape
        np.testing.assert_allclose(ours.objective_, objectives(theirs, X, y, 0.03, 1), rtol=2e-6)
        np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=0.01)

    def test_every_c_of_a_path_is_solved(self):
        """What cross-validation starts from must not decide what it ends with."""
        X, y = made_up(90, 40, 3)
        along = L2SVMCV(Cs=[0.01, 0.1, 1.0], tol=1e-10).fit(X, y)
        alone = L2SVMCV(Cs=along.C_, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(along.coef_, alone.coef_, atol=1e-4)


class TestChoice:
    def test_scores_and_choice_are_those_of_a_loop(self, data):
        X, y = data
        Cs = np.logspace(-5, -1, 5)
        model = L2SVMCV(intercept_scaling=1, Cs=Cs).fit(X, y)
        search = GridSearchCV(LinearSVC(tol=1e-6, max_iter=100_000), {"C": Cs}, cv=5).fit(X, y)
        expected = [search.cv_results_[f"split{k}_test_score"] for k in range(5)]
        np.testing.assert_allclose(model.scores_, expected, atol=1 / 60 + 1e-9)  # one of the 60 samples of a fold
        assert search.best_params_["C"] == model.C_
        assert Cs[model.scores_.mean(axis=0).argmax()] == model.C_

    def test_two_classes(self):
        X, y = made_up(100, 5, 2)
        Cs = [0.001, 0.1]
        model = L2SVMCV(intercept_scaling=1, Cs=Cs, cv=4).fit(X, y)
        for k, (train, test) in enumerate(StratifiedKFold(4).split(X, y)):
            scores = [linear_svc(C).fit(X[train], y[train]).score(X[test], y[test]) for C in Cs]
            np.testing.assert_allclose(model.scores_[k], scores, atol=1 / 25 + 1e-9)

    def test_order_of_the_grid_does_not_matter(self, data):
        up, down = L2SVMCV(Cs=[1e-4, 1e-2]).fit(*data), L2SVMCV(Cs=[1e-2, 1e-4]).fit(*data)
        assert up.C_ == down.C_
        assert (up.scores_ == down.scores_[:, ::-1]).all()

    def test_of_equals_the_smallest(self):
        X = np.r_[np.full((20, 1), -1.0), np.full((20, 1), 1.0)]
        assert L2SVMCV(Cs=[10, 0.1, 1]).fit(X, X[:, 0]).C_ == 0.1

    def test_default_grid_follows_the_units_and_surrounds_the_choice(self, data):
        X, y = data
        X = X + 0.5  # a mean, which the constant 1 is small against when multiplied
        model = L2SVMCV().fit(X, y)
        square = 1 + np.square(X).sum(axis=1).mean()
        np.testing.assert_allclose(model.Cs_ * square, np.logspace(-3, 4, 15)[: len(model.Cs_)])
        assert model.Cs_[0] < model.C_ < model.Cs_[-1]
        assert model.scores_.shape == (5, len(model.Cs_))

    def test_default_grid_ends_only_after_the_best(self):
        X, y = made_up(200, 100, 4)
        model = L2SVMCV().fit(X, y)
        whole = L2SVMCV(Cs=np.logspace(-3, 4, 15) * model.Cs_[0] / 1e-3).fit(X, y)
        assert len(model.Cs_) < 15
        assert whole.Cs_.tolist().index(whole.C_) == model.Cs_.tolist().index(model.C_)
        np.testing.assert_array_equal(model.scores_, whole.scores_[:, : len(model.Cs_)])

    @pytest.mark.parametrize("Cs", [0.1, [0.1]])
    def test_a_single_value_needs_no_folds(self, data, Cs):
        model = L2SVMCV(Cs=Cs, cv=200).fit(*data)
        assert model.C_ == 0.1
        assert model.scores_.shape == (0, 1)

    def test_folds_may_be_given_in_any_way(self, data):
        X, y = data
        expected = L2SVMCV(Cs=[1e-4, 1e-2]).fit(X, y).scores_
        splits = list(StratifiedKFold(5).split(X, y))
        masks = [(np.isin(np.arange(300), train), np.isin(np.arange(300), test)) for train, test in splits]
        for cv in (StratifiedKFold(5), splits, masks):
            assert (L2SVMCV(Cs=[1e-4, 1e-2], cv=cv).fit(X, y).scores_ == expected).all()
        assert L2SVMCV(cv=ShuffleSplit(3, test_size=0.2, random_state=0)).fit(X, y).scores_.shape[0] == 3

    def test_a_sample_that_a_fold_has_twice_counts_twice(self):
        X, y = made_up(60, 10, 3)
        train, test = np.arange(60) % 40, np.arange(40, 60)
        both = L2SVMCV(Cs=[0.01, 1], cv=[(train, test)]).fit(X, y).scores_
        expected = [linear_svc(C).fit(X[train], y[train]).score(X[test], y[test]) for C in (0.01, 1)]
        np.testing.assert_allclose(both[0], expected, atol=1 / 20 + 1e-9)


class TestUglyData:
    @pytest.mark.parametrize(
        "X",
        [
            np.ones((20, 3)),
            np.zeros((20, 3)),
            np.ones((20, 30)),
            np.arange(20.0)[:, None],
            np.c_[np.arange(20.0), np.full(20, 7.0)],
            np.repeat(np.eye(4), 5, axis=0),
            np.tile(np.arange(20.0)[:, None], 50),
            1e8 + np.arange(20.0)[:, None] * np.ones(40),
            np.eye(20) * 1e150,
        ],
        ids=["equal", "zero", "equal, wide", "one", "constant column", "duplicates", "rank 1", "offset", "huge"],
    )
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_solved_all_the_same(self, X, n_classes):
        y = np.arange(len(X)) * n_classes // len(X)
        model = L2SVMCV().fit(X, y)
        gap = 0.5 * np.square(gradients(model, X, y, model.C_, free_scaling(X))).sum(axis=1)
        assert np.isfinite(model.coef_).all()
        assert (gap <= 1e-5 * model.objective_).all()

    def test_labels_of_any_kind(self):
        X, y = made_up(60, 5, 3)
        expected = L2SVMCV().fit(X, y)
        for labels in (np.array(["cat", "dog", "fox"]), np.array([-7, 0, 12]), np.array(["a", "b", "c"], object)):
            model = L2SVMCV().fit(X, labels[y])
            assert (model.classes_ == labels).all()
            assert (model.predict(X) == labels[expected.predict(X)]).all()

    @pytest.mark.parametrize("shape", [(60, 100), (300, 20)])
    def test_float32_stays_and_gives_the_same(self, shape):
        X, y = made_up(*shape, 3)
        double, single = L2SVMCV().fit(X, y), L2SVMCV().fit(X.astype(np.float32), y)
        assert single.coef_.dtype == single.intercept_.dtype == np.float32
        assert single.decision_function(X.astype(np.float32)).dtype == np.float32
        assert double.coef_.dtype == double.decision_function(X).dtype == np.float64
        np.testing.assert_allclose(single.objective_, double.objective_, rtol=1e-5)
        assert np.mean(single.predict(X.astype(np.float32)) == double.predict(X)) > 0.98

    def test_bytes_and_frames(self):
        X, y = load_digits(return_X_y=True)
        frame = pd.DataFrame(X[:200].astype(np.uint8), columns=[f"p{k}" for k in range(64)])
        model = L2SVMCV().fit(frame, y[:200])
        assert model.feature_names_in_[3] == "p3"
        np.testing.assert_allclose(model.coef_, L2SVMCV().fit(X[:200], y[:200]).coef_)

    def test_in_a_pipeline(self):
        X, y = load_digits(return_X_y=True)
        pipeline = make_pipeline(StandardScaler(), L2SVMCV()).fit(X[:500], y[:500])
        assert pipeline.score(X[500:1000], y[500:1000]) > 0.85
        assert clone(pipeline).get_params().keys() == pipeline.get_params().keys()


class TestMistakes:
    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            ([[1.0], [np.nan]], [0, 1], "NaN"),
            ([[1.0], [2.0]], ["a", "a"], r"all 2 samples belong to one class, .*'a'.*: give samples of another"),
            ([[1.0], [2.0]], [0.5, 1.5], "continuous"),
            ([[1.0], [2.0]], [0, 1, 2], "inconsistent"),
            ([[1e200], [-1e200]], [0, 1], "too large to be squared: scale them"),
            ([[1.0], [2.0], [3.0]], [0, 1, 1], r"cv=5 folds, the largest has 2: give cv of at most 2"),
        ],
    )
    def test_data(self, X, y, message):
        with pytest.raises(ValueError, match=message):
            L2SVMCV().fit(X, y)

    def test_a_rare_class_gets_the_warning_of_scikit_learn(self):
        X, y = made_up(40, 5, 2)
        y[:3] = 2
        with pytest.warns(UserWarning, match="least populated class in y has only 3 members"):
            model = L2SVMCV().fit(X, y)
        assert model.coef_.shape == (3, 5)

    @pytest.mark.parametrize("Cs", [[], [1, -1], [0.0, 1], [[1.0]], [np.inf, 1], [1, np.nan]])
    def test_grids(self, Cs):
        with pytest.raises(ValueError, match="must be one number or a list of one or more"):
            L2SVMCV(Cs=Cs).fit([[1.0], [2.0]], [0, 1])

    @pytest.mark.parametrize("settings", [{"Cs": 0}, {"Cs": "all"}, {"cv": "five"}, {"tol": 0}, {"max_iter": 0}])
    def test_settings(self, settings):
        (name,) = settings
        with pytest.raises(ValueError, match=f"'{name}' parameter of L2SVMCV must be"):
            L2SVMCV(**settings).fit([[1.0], [2.0]], [0, 1])

    def test_too_few_steps(self):
        X, y = made_up(60, 10, 3)
        with pytest.warns(
            ConvergenceWarning, match=r"\d of 3 problems with C=10 did not converge to .* max_iter=1 steps"
        ):
            model = L2SVMCV(Cs=10.0, max_iter=1).fit(X, y)
        assert model.n_iter_ == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert L2SVMCV(Cs=10.0).fit(X, y).n_iter_ > 1

    def test_use_before_fit_and_other_features(self):
        with pytest.raises(NotFittedError):
            L2SVMCV().predict([[1.0]])
        with pytest.raises(ValueError, match="2 features"):
            L2SVMCV(Cs=1).fit([[1.0], [2.0]], [0, 1]).predict([[1.0, 2.0]])
