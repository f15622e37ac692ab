"""The part of scikit-learn 1.9's callbacks that this library needs, for releases before it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


class Task:
    """A fit or one of its epochs, as a callback sees it: ``sklearn.callback.CallbackContext``."""

    def __init__(self, estimator: Any, task_name: str, task_id: int, max_subtasks: int, parent: Task | None) -> None:
        self.estimator_name = type(estimator).__name__
        self.task_name = task_name
        self.task_id = task_id
        self.max_subtasks = max_subtasks
        self.parent = parent
        self._estimator = estimator
        self._n_subtasks = 0

    def subcontext(self, task_name: str) -> Task:
        """Return the next task within this one."""
        self._n_subtasks += 1
        return Task(self._estimator, task_name, self._n_subtasks - 1, 0, self)

    def call_on_fit_task_begin(self, *, estimator: Any) -> Task:
        """Tell all callbacks that the task begins."""
        for callback in estimator._skl_callbacks:
            callback.on_fit_task_begin(estimator, self)
        return self

    def call_on_fit_task_end(self, *, estimator: Any, reconstruction_attributes: Any = None) -> bool:
        """Tell all callbacks that the task ends, and return whether one of them asks to stop."""
        answers = [callback.on_fit_task_end(estimator, self) for callback in estimator._skl_callbacks]
        return any(answers)


class CallbackSupportMixin:
    """An estimator with callbacks: ``sklearn.callback.CallbackSupportMixin``."""

    _skl_callbacks: tuple[Any, ...] = ()
    _fit_task: Task | None = None
    _to_tear_down: list[Any]

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set the callbacks."""
        self._skl_callbacks = callbacks
        return self

    def _init_callback_context(self, max_subtasks: int) -> Task:
        self._fit_task, self._to_tear_down = Task(self, "fit", 0, max_subtasks, None), []
        for callback in self._skl_callbacks:
            self._to_tear_down.append(callback)
            callback.setup(self, self._fit_task)
        return self._fit_task

    def __sklearn_clone__(self) -> Any:
        """Return a clone with the same callbacks."""
        return super().__sklearn_clone__().set_callbacks(*self._skl_callbacks)  # type: ignore[misc]


def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that tells callbacks of its end, also after an error: ``sklearn.callback.with_callbacks``."""

    @wraps(method)
    def managed(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(estimator, *args, **kwargs)
        finally:
            task = getattr(estimator, "_fit_task", None)
            if task is not None:
                for callback in estimator._to_tear_down:
                    callback.teardown(estimator, task)
                del estimator._fit_task, estimator._to_tear_down

    return managed
