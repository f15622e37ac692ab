"""Activation functions: the output of a unit, its first two derivatives, and its values in the ideal target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from ..utils.types import Array


@dataclass(frozen=True)
class Activation:
    """An activation function f and its two target values.

    Parameters
    ----------
    name : str
        The name in a representation or a saved model.
    value, slope, curvature : callable
        f, f' and f'' of an array of net inputs. Each returns an array of the same shape and type.
    inactive, active : float
        The values in the ideal target of a unit that lost and of one that won.
    increasing : bool, default=True
        Whether f never decreases. Then it has a matching loss (see :mod:`epls.algorithm.training`); otherwise the
        squared error is minimised.
    inverse : callable or None, default=None
        A function from an output between inactive and active to its net input. It is used to steer the biases (see
        :mod:`epls.algorithm.training`). None leaves the biases to the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from epls import EPLS
    >>> from epls import Activation
    >>> arctan = Activation(
    ...     "arctan",
    ...     value=np.arctan,
    ...     slope=lambda z: 1 / (1 + z * z),
    ...     curvature=lambda z: -2 * z / (1 + z * z) ** 2,
    ...     inactive=-1.0,
    ...     active=1.0,
    ... )
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> EPLS(4, activation=arctan, random_state=0).fit_transform(X).shape
    (200, 4)
    """

    name: str
    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]
    inactive: float = 0.0
    active: float = 1.0
    increasing: bool = True
    inverse: Callable[[Array], Array] | None = None

    @property
    def is_built_in(self) -> bool:
        """Whether this is one of the library's own activations, which other libraries can compute too."""
        return ACTIVATIONS.get(self.name) is self

    def is_active(self, outputs: Array) -> NDArray[np.bool_]:
        """Return which outputs are at least a tenth of the way from inactive to active."""
        return np.asarray(outputs >= self.inactive + 0.1 * (self.active - self.inactive))

    def __reduce__(self) -> Any:
        """Pickle the library's own activations by name, because their functions have no names."""
        if self.is_built_in:
            return resolve_activation, (self.name,)
        return super().__reduce__()


def _logistic_curvature(z: Array) -> Array:
    h = expit(z)
    return h * (1 - h) * (1 - 2 * h)


def _tanh_curvature(z: Array) -> Array:
    h = np.tanh(z)
    return -2 * h * (1 - h * h)


def _softplus_inverse(h: Array) -> Array:
    return h + np.log(-np.expm1(-h))


LOGISTIC = Activation("logistic", expit, lambda z: expit(z) * expit(-z), _logistic_curvature, inverse=logit)
TANH = Activation(
    "tanh", np.tanh, lambda z: 1 - np.tanh(z) ** 2, _tanh_curvature, inactive=-1.0, active=1.0, inverse=np.arctanh
)
SOFTPLUS = Activation(
    "softplus", lambda z: np.logaddexp(z, 0), expit, lambda z: expit(z) * expit(-z), inverse=_softplus_inverse
)
# For a rectifier, a mean output near 0 says little about the mean net input. Its smooth form, the softplus, steers.
RELU = Activation(
    "relu", lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(z.dtype), np.zeros_like, inverse=_softplus_inverse
)
IDENTITY = Activation("identity", lambda z: z.copy(), np.ones_like, np.zeros_like, inverse=lambda h: h)
# With this one, components of norm 1 and no balance, EPLS finds the same as OMP-1: examples/plot_omp_special_case.py.
ABSOLUTE = Activation("absolute", np.abs, np.sign, np.zeros_like, increasing=False)

ACTIVATIONS = {a.name: a for a in (LOGISTIC, TANH, RELU, SOFTPLUS, IDENTITY, ABSOLUTE)}


def resolve_activation(activation: str | Activation) -> Activation:
    """Return the activation with this name, or the given activation."""
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str) and activation in ACTIVATIONS:  # type: ignore[redundant-expr]  # users may err
        return ACTIVATIONS[activation]
    raise ValueError(f"activation={activation!r} is unknown: give one of {sorted(ACTIVATIONS)} or an epls.Activation")
