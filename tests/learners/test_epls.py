"""The estimator: scikit-learn's checks, what users do with estimators, and what they do wrong."""

import pickle
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from unittest.mock import patch

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls import EPLS, PAPER, Prototypes, TrainingSettings
from epls.algorithm.activations import ACTIVATIONS, Activation
from epls.algorithm.settings import usual_epochs
from epls.algorithm.target import TARGETS
from epls.algorithm.training import Training
from epls.callbacks import Callback
from epls.metrics import never_active
from epls.utils.sklearn import HAS_CALLBACKS


@parametrize_with_checks(
    [EPLS(max_iter=3), *([EPLS(n_components=2, max_iter=3, device="cpu")] if find_spec("torch") else [])]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def error_of_constant_outputs(n_components, activation="logistic"):
    """What biases alone can reach: every unit's output is its share, whatever the sample."""
    f = ACTIVATIONS[activation]
    return (1 - 1 / n_components) * (f.active - f.inactive) ** 2


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture(scope="module")
def model(digits, device):
    return EPLS(30, max_iter=20, random_state=0, device=device).fit(digits)


def test_transform_is_the_formula_of_the_attributes(model, digits):
    standard = (digits - model.mean_) / model.scale_
    expected = expit(standard @ model.components_.T + model.intercept_)
    np.testing.assert_allclose(model.transform(digits), expected, atol=1e-5)  # inputs are rounded to a grid of 1e-6


def test_attributes(model, digits):
    assert model.components_.shape == (30, 64)
    assert model.components_.flags.c_contiguous
    assert model.intercept_.shape == (30,)
    assert model.n_iter_ == len(model.loss_curve_) == len(model.epoch_reports_) == 20
    assert model.loss_curve_[-1] < 0.7 * error_of_constant_outputs(30)
    np.testing.assert_allclose(model.mean_, digits.mean(axis=0))
    np.testing.assert_allclose(model.scale_, np.sqrt(digits.var(axis=0).mean()))
    assert all(report.win_spread <= 1 for report in model.epoch_reports_)


def test_the_default_number_of_units_is_100_or_that_of_samples(digits):
    assert EPLS(max_iter=1).fit(digits).components_.shape[0] == 100
    assert EPLS(max_iter=1).fit(digits[:17]).components_.shape[0] == 17


def test_winners_are_balanced_and_agree_with_the_outputs(model, digits):
    winners = model.winners(digits)
    assert np.ptp(np.bincount(winners, minlength=30)) <= 1
    codes = model.transform(digits)
    at_winner, at_random = codes[np.arange(len(codes)), winners], codes.mean(axis=1)
    assert at_winner.mean() > 5 * at_random.mean()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int16])
def test_type_of_the_result(digits, dtype, device):
    X = digits.astype(dtype)
    model = EPLS(5, max_iter=2, random_state=0, device=device).fit(X)
    expected = np.float64 if dtype == np.float64 else np.float32
    assert model.components_.dtype == model.intercept_.dtype == expected
    assert model.transform(X).dtype == expected


@pytest.mark.parametrize(
    ("dtype", "a", "c"),
    [
        (np.float64, 255.0, 0.0),
        (np.float64, 1e-3, 0.0),
        (np.float64, 3.7, 1000.0),
        (np.float64, 1 / 3, -5.0),
        (np.float64, 1e-150, 0.0),
        (np.float32, 255, 0),
        (np.float32, 10, 1000),
        (np.float32, 2.0**-140, 0),
        (np.uint8, 10, 7),
    ],
)
def test_units_and_origin_of_the_data_do_not_matter(digits, dtype, a, c):
    X = digits.astype(dtype)
    changed = (a * digits + c).astype(dtype)
    assert (changed.astype(float) == a * digits + c).all() or dtype == np.float64  # nothing is lost in rounding
    features = EPLS(20, max_iter=30, random_state=0).fit_transform(X)
    np.testing.assert_allclose(EPLS(20, max_iter=30, random_state=0).fit_transform(changed), features, atol=1e-4)


@pytest.mark.parametrize("n_samples", [1000, 1001])
@pytest.mark.slow
def test_mean_outputs_end_at_the_share_even_after_a_batch_of_one(n_samples, device):
    X = np.random.RandomState(0).normal(size=(n_samples, 20))
    means = (
        EPLS(10, settings=TrainingSettings(max_norm=None), random_state=0, device=device).fit_transform(X).mean(axis=0)
    )
    np.testing.assert_allclose(means, 0.1, atol=0.02)


def test_bytes_give_what_floats_of_the_same_type_give(digits, device):
    as_bytes = EPLS(20, max_iter=5, random_state=0, device=device).fit_transform(digits.astype(np.uint8))
    as_floats = EPLS(20, max_iter=5, random_state=0, device=device).fit_transform(digits.astype(np.float32))
    assert (as_bytes == as_floats).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_does_not_matter(digits, order, device):
    X = np.asarray(digits, order=order)
    expected = EPLS(10, max_iter=2, random_state=0, device=device).fit_transform(digits)
    assert (EPLS(10, max_iter=2, random_state=0, device=device).fit_transform(X) == expected).all()
    wide = np.repeat(digits, 2, axis=1)
    assert (EPLS(10, max_iter=2, random_state=0, device=device).fit_transform(wide[:, ::2]) == expected).all()


# The squared error of a rectifier has no gradient once its outputs are 0, and vSGD's steps get it there: documented.
@pytest.mark.parametrize(
    ("activation", "loss", "optimizer"),
    sorted(
        set(product(ACTIVATIONS, ["matching", "squared"], ["adam", "vsgd_block"])) - {("relu", "squared", "vsgd_block")}
    ),
)
def test_all_parts_work_together(digits, activation, loss, optimizer):
    """tests/torch/test_torch_engine.py has the same gradients with torch."""
    settings = TrainingSettings(loss=loss, optimizer=optimizer)
    model = EPLS(20, activation=activation, settings=settings, max_iter=30, random_state=0).fit(digits)
    assert np.isfinite(model.transform(digits)).all()
    assert model.loss_curve_[-1] < 0.97 * error_of_constant_outputs(20, activation)


@pytest.mark.parametrize("target", TARGETS)
def test_all_targets_learn(digits, target, device):
    model = EPLS(20, settings=TrainingSettings(target=target), max_iter=10, random_state=0, device=device).fit(digits)
    assert model.loss_curve_[-1] < 0.7 * error_of_constant_outputs(20)


def test_few_mends_keep_the_printed_algorithm_from_collapsing(digits):
    """As printed, all outputs saturate at 0 and the error stays at 1: tests/algorithm/test_paper.py."""
    mended = replace(PAPER, biases="quantile", optimizer="adam", wake=True, tol=None)
    model = EPLS(30, settings=mended, random_state=0).fit(digits)
    assert model.loss_curve_[-1] < 0.95
    assert len(never_active(model.transform(digits), "logistic")) == 0


def test_settings_are_one_value_to_scikit_learn(digits):
    """It is cloned, searched, compared and shown like any other parameter."""
    assert repr(EPLS()) == "EPLS()"
    model = EPLS(5, max_iter=2, settings=PAPER, random_state=0)
    assert clone(model).settings == PAPER
    assert "optimizer='vsgd_block'" in repr(model)
    choices = [TrainingSettings(), replace(PAPER, optimizer="adam", tol=None)]
    search = GridSearchCV(make_pipeline(model, LogisticRegression()), {"epls__settings": choices}, cv=2)
    search.fit(digits[:200], load_digits().target[:200])
    assert search.best_params_["epls__settings"] in choices


def test_the_constructor_goes_before_the_settings(digits):
    """The paper's size of batches and stop rule hold where the constructor leaves them open."""
    sizes, paper = {}, replace(PAPER, tol=None)
    for batch_size in (None, 25):
        sizes[batch_size] = []
        model = EPLS(10, batch_size=batch_size, max_iter=1, settings=paper, random_state=0)
        with patch.object(Training, "step", autospec=True, side_effect=recording(Training.step, sizes[batch_size])):
            model.fit(digits[:100])
    assert sizes == {None: [10] * 10, 25: [25] * 4}
    with pytest.warns(ConvergenceWarning, match="tol=1e-06"):
        EPLS(10, max_iter=1, settings=PAPER, random_state=0).fit(digits)
    with pytest.warns(ConvergenceWarning, match="tol=1e-08"):
        EPLS(10, max_iter=1, tol=1e-8, settings=PAPER, random_state=0).fit(digits)


@pytest.mark.parametrize(
    ("n_batches", "n_components", "expected"),
    [(9, 50, 107), (10, 10, 96), (240, 400, 8), (100, 1600, 24), (250, 1600, 20), (500, 800, 8), (1000, 400, 5)],
)
def test_the_usual_number_of_epochs(n_batches, n_components, expected):
    """It follows from the number of units: 960 steps and 5 epochs at least, 2,400 steps or 20 epochs at most."""
    assert usual_epochs(n_batches, n_components) == expected


def test_a_tolerance_has_four_times_as_many_epochs(digits, monkeypatch):
    monkeypatch.setattr("epls.learners.epls.usual_epochs", lambda n_batches, n_components: 2)
    monkeypatch.setattr("epls.learners.epls.has_settled", lambda errors, tol: False)
    assert EPLS(10, random_state=0).fit(digits).n_iter_ == 2
    with pytest.warns(ConvergenceWarning):
        assert EPLS(10, tol=1e-6, random_state=0).fit(digits).n_iter_ == 8


def test_the_remainder_of_an_epoch_can_be_dropped(digits):
    X = digits[:107]
    counts = {}
    for drop_last in (False, True):
        seen = []
        model = EPLS(10, batch_size=25, settings=TrainingSettings(drop_last=drop_last), max_iter=2, random_state=0)
        with patch.object(Training, "step", autospec=True, side_effect=recording(Training.step, seen)):
            model.fit(X)
        counts[drop_last] = seen
    assert counts[False] == [25, 25, 25, 25, 7] * 2
    assert counts[True] == [25, 25, 25, 25] * 2
    with pytest.raises(ValueError, match="smaller batch_size"):
        EPLS(10, batch_size=200, settings=TrainingSettings(drop_last=True)).fit(X)


def recording(step, sizes):
    def recorded(training, batch):
        sizes.append(len(batch[1]))
        return step(training, batch)

    return recorded


@pytest.mark.parametrize("loss", ["matching", "squared"])
@pytest.mark.slow
def test_biases_can_be_steered_with_either_loss(digits, loss, device):
    """At the end the mean output of every unit is its share, which a learned bias does not see to."""

    def fitted(biases, max_iter=None):
        settings = TrainingSettings(loss=loss, biases=biases, wake=False)
        return EPLS(20, max_iter=max_iter, settings=settings, random_state=0, device=device).fit(digits)

    np.testing.assert_allclose(fitted("steered").transform(digits).mean(axis=0), 1 / 20, rtol=0.35)
    random, quantile = fitted("random", 1).intercept_, fitted("quantile", 1).intercept_
    assert random.mean() > quantile.mean() + 0.2


def test_biases_cannot_be_steered_without_an_inverse(digits):
    with pytest.raises(ValueError, match="'absolute' has none"):
        EPLS(20, activation="absolute", settings=TrainingSettings(biases="steered")).fit(digits)


def test_without_balance_units_starve(digits):
    wins = {}
    for target in ("largest", "auction"):
        settings = TrainingSettings(target=target, biases="random", loss="squared", wake=False)
        model = EPLS(40, max_iter=20, settings=settings, random_state=0).fit(digits)
        wins[target] = np.bincount(model.transform(digits).argmax(axis=1), minlength=40)
    assert (wins["largest"] == 0).sum() > (wins["auction"] == 0).sum()


@pytest.mark.parametrize("activation", [name for name, f in ACTIVATIONS.items() if f.increasing])
def test_every_unit_is_half_active_for_some_sample(activation, digits, device):
    f = ACTIVATIONS[activation]
    X = np.repeat(digits[:30], 20, axis=0)  # clusters worth many shares, which units must divide
    codes = EPLS(60, activation=activation, max_iter=20, random_state=0, device=device).fit_transform(X)
    assert codes.max(axis=0).min() >= (f.inactive + f.active) / 2 - 1e-3
    assert codes.max() < f.active + 3


@pytest.mark.parametrize(("n_components", "n_features"), [(2, 1), (40, 30)])
def test_the_limit_of_norms_leaves_room_for_sparse_outputs(n_components, n_features):
    """Where the paper's limit of 1 would not let a unit of few inputs be rarely active."""
    X = np.random.RandomState(0).standard_normal((400, n_features))
    model = EPLS(n_components, max_iter=30, random_state=0).fit(X)
    limit = np.log(n_components) / np.sqrt(n_features) * np.sqrt(300) / np.log(1600)
    assert np.linalg.norm(model.components_, axis=1).max() == pytest.approx(limit)


def test_max_norm_limits_the_components(digits):
    model = EPLS(20, settings=TrainingSettings(max_norm=0.5), max_iter=10, random_state=0).fit(digits)
    assert np.linalg.norm(model.components_, axis=1).max() <= 0.5 + 1e-9


@pytest.mark.parametrize("batch_size", [1, 7, 20, 33, 100, 5000])
def test_any_batch_size_balances(digits, batch_size, device):
    model = EPLS(20, batch_size=batch_size, max_iter=2, random_state=0, device=device).fit(digits[:203])
    assert [report.win_spread for report in model.epoch_reports_] == [1, 1]  # 203 = 10 * 20 + 3


@pytest.mark.parametrize(("n_samples", "n_components"), [(2, 1), (2, 2), (7, 7), (30, 29)])
def test_as_many_units_as_samples_or_nearly(digits, n_samples, n_components):
    codes = EPLS(n_components, max_iter=100, random_state=0).fit_transform(digits[:n_samples])
    assert codes.shape == (n_samples, n_components)
    assert np.isfinite(codes).all()


def test_one_feature(digits):
    X = digits.sum(axis=1, keepdims=True)
    assert np.isfinite(EPLS(5, random_state=0).fit_transform(X)).all()


class TestStreams:
    def test_partial_fit_learns(self, digits, device):
        model = EPLS(20, random_state=0, device=device)
        for _ in range(150):
            model.partial_fit(digits)
        assert model.loss_curve_[-1] < 0.8
        assert len(never_active(model.transform(digits), "logistic")) == 0

    def test_wins_stay_balanced_whatever_the_pieces(self, digits):
        model = EPLS(20, random_state=0, batch_size=20)
        for size in (3, 40, 1, 19, 100):
            model.partial_fit(digits[:size])
            counts = model._training.engine.target.counts
            assert counts.max() - counts.min() <= 1
        assert counts.sum() == 163

    def test_components_stay_limited(self, digits):
        model = EPLS(20, random_state=0)
        for _ in range(20):
            model.partial_fit(digits)
        assert np.linalg.norm(model.components_, axis=1).max() <= 1 + 1e-9

    def test_each_call_is_an_epoch_of_the_literal_rule(self, digits):
        model = EPLS(20, settings=TrainingSettings(target="literal"), random_state=0)
        for _ in range(5):
            model.partial_fit(digits)
        assert model._training.engine.target.inhibitor.max() < 3

    @pytest.mark.parametrize("piece", [1, 2])
    def test_a_first_piece_that_does_not_tell_the_scale_is_refused(self, digits, piece):
        with pytest.raises(ValueError, match=r"1 sample|all equal"):
            EPLS(20).partial_fit(np.repeat(digits[:1], piece, axis=0))

    def test_a_first_piece_smaller_than_the_number_of_units(self, digits):
        assert EPLS(20, random_state=0).partial_fit(digits[:3]).components_.shape == (20, 64)

    def test_the_first_piece_bounds_the_number_of_units(self, digits):
        """Else the memory for the weights would be whatever somebody typed."""
        model = EPLS(10**9)
        with pytest.raises(ValueError, match=r"n_components=1000000000 is more than 30000, .* begin with more samples"):
            model.partial_fit(digits[:300])
        assert not hasattr(model, "components_")
        assert model.set_params(n_components=301).partial_fit(digits[:4]).components_.shape == (301, 64)

    def test_partial_fit_goes_on_from_fit(self, digits, model):
        again = clone(model).fit(digits)
        again.partial_fit(digits)
        assert again.loss_curve_[0] < 1.5 * model.loss_curve_[-1]

    def test_a_pickled_stream_goes_on_the_same(self, digits, device):
        model = EPLS(20, random_state=0, device=device).partial_fit(digits)
        copy = pickle.loads(pickle.dumps(model))
        assert (copy.partial_fit(digits).components_ == model.partial_fit(digits).components_).all()

    def test_fit_forgets_the_stream(self, digits):
        expected = EPLS(20, max_iter=2, random_state=0).fit(digits).components_
        model = EPLS(20, max_iter=2, random_state=0).partial_fit(digits[:300])
        assert (model.fit(digits).components_ == expected).all()


class TestInScikitLearn:
    def test_clone_pickle_joblib(self, model, digits, tmp_path):
        assert clone(model).get_params() == model.get_params()
        joblib.dump(model, tmp_path / "model.joblib")
        for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
            assert (copy.transform(digits) == model.transform(digits)).all()

    def test_set_output_and_names(self, digits):
        frame = pd.DataFrame(digits[:200], columns=[f"p{k}" for k in range(64)])
        model = EPLS(5, max_iter=2, random_state=0).set_output(transform="pandas")
        codes = model.fit_transform(frame)
        assert codes.columns.tolist() == [f"epls{k}" for k in range(5)]
        assert model.feature_names_in_.tolist() == frame.columns.tolist()

    @pytest.mark.slow
    def test_pipeline_and_grid_search_in_processes(self, digits):
        labels = load_digits().target
        search = GridSearchCV(
            make_pipeline(EPLS(max_iter=10, random_state=0), LogisticRegression(max_iter=1000, C=10)),
            {"epls__n_components": [5, 50]},
            cv=2,
            n_jobs=2,
        ).fit(digits[:600], labels[:600])
        assert search.best_params_ == {"epls__n_components": 50}
        assert search.best_score_ > 0.7

    def test_works_in_threads(self, digits, device):
        expected = EPLS(10, max_iter=3, random_state=0, device=device).fit(digits).components_
        fits = joblib.Parallel(n_jobs=4, backend="threading")(
            joblib.delayed(EPLS(10, max_iter=3, random_state=0, device=device).fit)(digits) for _ in range(4)
        )
        for fit in fits:
            np.testing.assert_allclose(fit.components_, expected, atol=1e-6)

    @pytest.mark.skipif(not HAS_CALLBACKS, reason="fitted_estimator needs scikit-learn 1.9")
    def test_callbacks_see_every_epoch_and_can_stop(self, digits):
        class Watcher:
            errors: list

            def setup(self, estimator, context):
                self.errors, self.ended = [], False

            def on_fit_task_begin(self, estimator, context):
                pass

            def on_fit_task_end(self, estimator, context, *, fitted_estimator):
                if context.task_name == "epoch":
                    self.errors.append(fitted_estimator.transform(digits[:10]).mean())
                    return len(self.errors) == 4
                return False

            def teardown(self, estimator, context):
                self.ended = True

        watcher = Watcher()
        model = EPLS(10, max_iter=9, random_state=0).set_callbacks(watcher).fit(digits)
        assert len(watcher.errors) == model.n_iter_ == 4
        assert watcher.errors[0] > watcher.errors[-1]
        assert watcher.ended

    def test_interrupted_fit_leaves_the_earlier_one(self, digits, model):
        class Interrupt(Callback):
            def on_fit_task_begin(self, estimator, context):
                if context.task_name == "epoch" and context.task_id == 2:
                    raise KeyboardInterrupt

        fitted = clone(model).fit(digits)
        before = fitted.components_.copy()
        fitted.set_callbacks(Interrupt())
        with pytest.raises(KeyboardInterrupt):
            fitted.fit(digits[:100, :10])
        assert (fitted.components_ == before).all()
        fitted.set_callbacks()
        with pytest.raises(ValueError, match="more than n_samples"):
            fitted.fit(digits[:10, :10])
        assert fitted.transform(digits).shape == (1797, 30)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak of memory has another unit, or is not told")
@pytest.mark.slow
def test_a_read_only_memory_map_is_not_copied(tmp_path):
    """40 MB of pixels: as float64 they would be 320 MB."""
    np.save(tmp_path / "pixels.npy", np.random.RandomState(0).randint(256, size=(100_000, 400)).astype(np.uint8))
    script = f"""
        import resource
        import numpy as np
        from epls import EPLS
        pixels = np.load({str(tmp_path / "pixels.npy")!r}, mmap_mode="r")
        EPLS(16, max_iter=1, random_state=0).fit(pixels[:1000]).transform(pixels[:1000])  # compile
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        EPLS(16, max_iter=1, random_state=0).fit(pixels)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
    """
    megabytes = float(run_python(script))
    assert megabytes < 40 + 60  # the map itself, and working memory that does not grow with it


def run_python(script):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_same_seed_same_bits_in_another_process(digits):
    script = """
        from sklearn.datasets import load_digits
        from epls import EPLS
        print(EPLS(20, max_iter=5, random_state=42).fit(load_digits().data).components_.tobytes().hex())
    """
    here = EPLS(20, max_iter=5, random_state=42).fit(digits).components_
    assert run_python(script).strip() == here.tobytes().hex()
    assert (EPLS(20, max_iter=5, random_state=43).fit(digits).components_ != here).any()


class TestBadInput:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ([[1.0, np.nan], [2.0, 3.0]], "NaN"),
            ([[1.0, np.inf], [2.0, 3.0]], "infinity"),
            ([["a", "b"], ["c", "d"]], "could not convert|dtype"),
            ([1.0, 2.0, 3.0], "Expected 2D array"),
            (np.zeros((2, 2, 2)), "dim 3"),
            (np.empty((0, 3)), "0 sample"),
            (np.empty((3, 0)), "0 feature"),
            ([[1.0, 2.0]], "1 sample"),
            ([[1e200], [-1e200]], "too large"),
            ([[1e-200], [-1e-200]], "too small"),
        ],
    )
    def test_data(self, X, message):
        with pytest.raises(ValueError, match=message):
            EPLS(random_state=0).fit(X)

    @pytest.mark.parametrize(
        "settings",
        [
            {"n_components": 0},
            {"n_components": -1},
            {"n_components": 1.5},
            {"activation": "sigmoid"},
            {"batch_size": 0},
            {"settings": "paper"},
            {"max_iter": 0},
            {"tol": -1},
            {"random_state": "seed"},
            {"device": 0},
        ],
    )
    def test_settings(self, settings, digits):
        (name,) = settings
        with pytest.raises(ValueError, match=f"'{name}' parameter of EPLS must be"):
            EPLS(**settings).fit(digits)

    @pytest.mark.parametrize(
        ("settings", "allowed"),
        [
            ({"target": "epoch"}, "'auction', 'exact', 'literal', 'literal_scaled' or 'largest'"),
            ({"loss": "log"}, "'matching' or 'squared'"),
            ({"optimizer": "capped_vsgd"}, "'adam', 'vsgd', 'vsgd_block' or 'vsgd_global'"),
            ({"biases": None}, "'auto', 'steered', 'quantile', 'random' or 'none'"),
            ({"batch_size": 30}, "'n_components' or None"),
            ({"drop_last": "no"}, "False or True"),
            ({"max_norm": 0}, "a number above 0, 'auto' or None"),
            ({"max_norm": True}, "a number above 0, 'auto' or None"),
            ({"tol": -1}, "a number of at least 0 or None"),
            ({"tol": np.nan}, "a number of at least 0 or None"),
        ],
    )
    def test_settings_of_training(self, settings, allowed):
        ((name, value),) = settings.items()
        with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}: give {allowed}")):
            TrainingSettings(**settings)

    def test_more_units_than_samples(self, digits):
        with pytest.raises(ValueError, match=r"n_components=11 is more than n_samples=10.*at most 10"):
            EPLS(11).fit(digits[:10])

    def test_an_activation_that_is_not_finite(self, digits):
        with np.errstate(all="ignore"):
            log = Activation("log", np.log, lambda z: 1 / z, lambda z: -1 / z**2)
            with pytest.raises(ValueError, match="outputs of 'log' are not finite"):
                EPLS(5, activation=log, random_state=0).fit(digits)

    def test_use_before_fit(self, digits):
        for method in (EPLS().transform, EPLS().winners):
            with pytest.raises(NotFittedError, match="not fitted"):
                method(digits)

    def test_another_number_of_features(self, model, digits):
        for method in (model.transform, model.winners):
            with pytest.raises(ValueError, match="63 features"):
                method(digits[:, 1:])


@pytest.mark.parametrize("learner", [EPLS, Prototypes])
@pytest.mark.parametrize("value", [0, 1, 0.1])
def test_equal_samples_have_equal_codes_and_a_warning(learner, value):
    X = np.full((50, 4), value)
    with pytest.warns(UserWarning, match="all 50 samples are equal: there is nothing to learn"):
        codes = learner(5, max_iter=2, random_state=0).fit(X).transform(X)
    assert np.isfinite(codes).all()
    assert (codes == codes[0]).all()
