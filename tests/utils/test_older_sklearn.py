"""Callbacks where scikit-learn has none: those of 1.9 and these must behave alike."""

import pytest
from sklearn.base import BaseEstimator, clone

import epls.callbacks
from epls import EPLS
from epls.callbacks import Callback, OnEpoch
from epls.utils.older_sklearn import CallbackSupportMixin, with_callbacks


class Counting(CallbackSupportMixin, BaseEstimator):
    """Three epochs at most, told as callbacks tells them."""

    def __init__(self, fails=False):
        self.fails = fails

    @with_callbacks
    def fit(self):
        fit_task = self._init_callback_context(max_subtasks=3).call_on_fit_task_begin(estimator=self)
        for _ in range(3):
            task = fit_task.subcontext(task_name="epoch").call_on_fit_task_begin(estimator=self)
            if self.fails:
                raise ArithmeticError
            if task.call_on_fit_task_end(estimator=self, reconstruction_attributes=dict):
                break
        fit_task.call_on_fit_task_end(estimator=self)
        return self


class Noting(Callback):
    def __init__(self, stop_after=None, refuses=False):
        self.stop_after, self.refuses, self.seen = stop_after, refuses, []

    def setup(self, estimator, context):
        self.seen.append("setup")
        if self.refuses:
            raise PermissionError

    def on_fit_task_begin(self, estimator, context):
        self.seen.append(f"begin {context.task_name} {context.task_id}")

    def on_fit_task_end(self, estimator, context):
        self.seen.append(f"end {context.task_name} {context.task_id}")
        return context.task_name == "epoch" and context.task_id == self.stop_after

    def teardown(self, estimator, context):
        assert context.task_name == "fit"
        self.seen.append("teardown")


def test_callbacks_are_told_in_order_and_can_stop():
    first, second = Noting(stop_after=1), Noting()
    Counting().set_callbacks(first, second).fit()
    epochs = [f"{hook} epoch {number}" for number in range(2) for hook in ("begin", "end")]
    assert first.seen == second.seen == ["setup", "begin fit 0", *epochs, "end fit 0", "teardown"]


def test_on_epoch_finds_what_it_needs():
    done = []
    Counting().set_callbacks(OnEpoch(lambda epoch, total: done.append((epoch, total)))).fit()
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_they_are_torn_down_after_an_error():
    noting = Noting()
    with pytest.raises(ArithmeticError):
        Counting(fails=True).set_callbacks(noting).fit()
    assert noting.seen == ["setup", "begin fit 0", "begin epoch 0", "teardown"]


def test_only_what_was_set_up_is_torn_down():
    refusing, after = Noting(refuses=True), Noting()
    with pytest.raises(PermissionError):
        Counting().set_callbacks(refusing, after).fit()
    assert refusing.seen == ["setup", "teardown"]
    assert after.seen == []


def test_a_clone_keeps_them():
    noting = Noting()
    clone(Counting().set_callbacks(noting)).fit()
    assert noting.seen[-1] == "teardown"


def test_callbacks_of_others_are_refused(monkeypatch):
    monkeypatch.setattr(epls.callbacks, "HAS_CALLBACKS", False)
    with pytest.raises(TypeError, match=r"callbacks such as .* need scikit-learn 1.9 or later, but this is"):
        EPLS().set_callbacks(object())
