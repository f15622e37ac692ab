"""One layer of units, f(w·x + b): its computation in NumPy, and its plain arrays for other libraries.

Every learner with one layer of units uses it in training, in ``transform``, in the natural encoder and in dense
encoding: :func:`standardize`, :func:`net_inputs`, :func:`activate`. Export uses a :class:`FoldedLayer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.samples import Samples
from ..kernels.activation import logistic_float32
from ..kernels.steps import gather
from ..utils.threads import by_rows, product
from ..utils.types import Array
from .activations import LOGISTIC, Activation

# Inputs are rounded to a grid. If the units of the data change, standardised inputs differ only in the last bits.
# Training would amplify this to different features, but the grid makes the inputs equal.
_GRID = 2.0**20


def standardize(X: NDArray[Any], rows: NDArray[np.intp], center: Array, scale: float, out: Array) -> None:
    """Write ``(X[rows] - center) / scale`` to the leading columns of ``out``, for any type and layout of ``X``.

    Samples are centred first, because in single precision, samples far from 0 would lose their differences.
    """
    if not X.flags.c_contiguous:
        X, rows = X[rows], np.arange(len(rows))
    X = X.view()
    X.flags.writeable = False  # numba treats read-only arrays as a separate type; this way it compiles only one
    gather(out, rows, X, center, 1 / scale, _GRID)


def net_inputs(inputs: Array, weights: Array, out: Array, intercept: Array | None = None) -> Array:
    """Write w·x + b of all inputs and units to ``out``, and return it.

    Without an intercept, the last column of the weights holds the biases, and that of the inputs is 1.
    """
    product(inputs, weights.T, out)
    if intercept is not None:
        out += intercept
    return out


def activate(activation: Activation, net: Array) -> Array:
    """Replace net inputs by outputs, check that they are finite, and return the sums of their squares over each row."""
    if activation is LOGISTIC and net.dtype == np.float32:
        squares = np.empty(len(net), net.dtype)
        by_rows(logistic_float32, (net, squares))
    else:
        net[...] = activation.value(net)
        squares = np.einsum("ij,ij->i", net, net)
    if not np.isfinite(squares).all():
        raise not_finite(activation, net.dtype.name)
    return squares


def not_finite(activation: Activation, dtype: str) -> ValueError:
    """Return the error for outputs of some type that are NaN or infinite."""
    return ValueError(
        f"the outputs of {activation.name!r} are not finite: its function must return a finite number for every net "
        f"input, and the squares of outputs and the products of weights and standardised samples must stay below "
        f"{np.finfo(dtype).max:.1g} in {dtype}"
    )


@dataclass(frozen=True)
class UnitLayer:
    """A learned layer as plain arrays: outputs f(weights·(x - mean) / scale + intercept).

    Attributes
    ----------
    weights : ndarray of shape (n_components, n_features)
        A unit per row.
    intercept : ndarray of shape (n_components,)
        The biases. The mirrored units (``split_sign``) have the outputs f(-weights·(x - mean) / scale + intercept).
    activation : Activation
        The function f.
    mean : ndarray of shape (n_features,)
        The mean, which is subtracted from a sample.
    scale : float
        The number that centred samples are divided by.
    """

    weights: Array
    intercept: Array
    activation: Activation
    mean: Array
    scale: float = 1.0

    def block_encoders(self, dtype: np.dtype[np.floating], mirrored: bool = False) -> Callable[[], Any]:
        """Return a function that creates encoders for samples of a type, one for each thread, with their own buffers.

        If ``mirrored``, the outputs of the mirrored units follow.
        """
        weights, intercept = self.weights.astype(dtype, copy=False), self.intercept.astype(dtype, copy=False)
        n_units, n_features = weights.shape

        def new_encoder() -> Callable[[Array], Array]:
            inputs, outputs = Buffer(n_features, dtype), Buffer(n_units * (1 + mirrored), dtype)

            def encode(samples: Array) -> Array:
                rows, found = inputs.rows(len(samples)), outputs.rows(len(samples))
                standardize(samples, np.arange(len(samples)), self.mean, self.scale, rows)
                net = net_inputs(rows, weights, found[:, :n_units], intercept)
                if mirrored:  # b - w·x is 2 b - (w·x + b)
                    np.subtract(2 * intercept, net, out=found[:, n_units:])
                activate(self.activation, found)
                return found

            return encode

        return new_encoder

    def folded(self) -> FoldedLayer:
        """Return the same layer, with weights that include centring and scaling."""
        weights = self.weights.astype(np.float64) / self.scale
        return FoldedLayer(weights, weights @ self.mean, self.intercept.astype(np.float64), self.activation)


@dataclass(frozen=True)
class FoldedLayer:
    """Outputs f(weights·x - center + intercept) of raw samples, in float64, for libraries without centring.

    If the mean of the data is a thousand times their spread or more, this loses digits in single precision. ``center``
    is the mean sample projected on each unit. Mirrored units have the outputs f(center - weights·x + intercept).
    """

    weights: Array
    center: Array
    intercept: Array
    activation: Activation

    def after(self, mean: Array, matrix: Array) -> FoldedLayer:
        """Return the layer whose output for x is the output of this one for (x - mean) @ matrix."""
        weights = self.weights @ matrix.T
        return replace(self, weights=weights, center=self.center + weights @ mean)


class Buffer:
    """A buffer for the rows of successive blocks, allocated once."""

    def __init__(self, n_columns: int, dtype: np.dtype[np.floating]) -> None:
        self._room = np.empty((0, n_columns), dtype)

    def rows(self, n_rows: int) -> Array:
        """Return room for this many rows. Previous content is lost."""
        if len(self._room) < n_rows:
            self._room = np.empty((n_rows, self._room.shape[1]), self._room.dtype)
        return self._room[:n_rows]


def standardized_batches(samples: Samples, batch_size: int, random: np.random.RandomState) -> Iterator[Array]:
    """Iterate over centred and scaled mini-batches, (n, n_features + 1), last column 1; each is valid until the next.

    The sizes of batches differ by at most one, because a mean over a small remainder would say little.
    """
    center, scale = samples.moments.center_and_scale()
    buffer = Buffer(samples.shape[1] + 1, samples.dtype)
    for X, rows, *_ in samples.epoch(random, batch_size, n_even=samples.n_batches(batch_size)):
        inputs = buffer.rows(len(rows))
        standardize(X, rows, center, scale, inputs)
        inputs[:, -1] = 1
        yield inputs


def activation_of(learner: Any) -> Activation | None:
    """Return the activation of a fitted learner's units; None if it is not one layer of units."""
    return learner.as_layer().activation if hasattr(learner, "as_layer") else None


def layer_of(model: Any) -> FoldedLayer:
    """Return the plain arrays of a fitted learner with one layer of units."""
    if not hasattr(model, "as_layer"):
        triangle = "; its codes are (d.mean(1, keepdim=True) - d).relu() with d = torch.cdist(X, components_)"
        raise ValueError(
            f"a {type(model).__name__} is not one layer of units: give a fitted EPLS, SparseAutoencoder or SparseRBM"
            f"{triangle if getattr(model, 'own_encoder', None) == 'triangle' else ''}"
        )
    folded: FoldedLayer = model.as_layer().folded()
    return folded
