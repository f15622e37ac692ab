"""Learning from all samples at once: L-BFGS over a matrix of components, with gradients summed over blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ..utils.threads import map_blocks
from ..utils.types import Array, Float64

# Samples per block: products of this many rows run at full speed, and a thread's buffer takes 13 MB at 1600 units.
_BLOCK_ROWS = 2048


def minimize_over_epochs(
    objective: Callable[[Float64], tuple[float, Float64]], start: Float64, epochs: Generator[int], tol: float
) -> tuple[Float64, list[float]]:
    """Return the components that minimise a positive objective, and the objective after each iteration.

    ``objective`` returns value and gradient at components of the shape of ``start``. Every iteration uses one of
    ``epochs``, so there are at most as many. They also end when an iteration lowers the objective by at most ``tol``
    times its first value.
    """
    first = 0.0
    curve: list[float] = []

    def relative(flat: Float64) -> tuple[float, Float64]:
        # SciPy compares an iteration's gain with the value, or with 1 if that is larger. So scale the first value to 1.
        nonlocal first
        value, gradient = objective(flat.reshape(start.shape))
        if not first:
            first = value
            if not np.isfinite(value):
                raise ValueError(f"the objective is {value} at the start: scale the data to about 1")
        return value / first, gradient.ravel() / first

    def iteration_done(intermediate_result: Any) -> None:
        curve.append(float(intermediate_result.fun) * first)
        next(epochs)  # raises StopIteration after the last, which ends the minimisation

    next(epochs)
    # Neither the gradient, whose size depends on the data, nor the number of evaluations ends the minimisation.
    options = {"maxiter": np.iinfo(np.int32).max, "maxfun": np.iinfo(np.int32).max, "ftol": tol, "gtol": 0.0}
    with closing(epochs):  # callbacks are notified of the end before fit ends, even after an error
        result = minimize(
            relative, start.ravel(), jac=True, method="L-BFGS-B", callback=iteration_done, options=options
        )
    return result.x.reshape(start.shape), curve


def sums_over_blocks(X: Array, components: Array, derivatives: Callable[[Array], Float64]) -> tuple[Float64, Float64]:
    """Return the value that ``derivatives`` returns and the gradient by the components, summed over all samples.

    ``derivatives`` replaces the products of a block of samples and the components by the derivatives of the objective
    by these products; several threads call it at once. Memory does not grow with the number of samples, and the sums do
    not depend on the number of threads.
    """
    n_units, n_features = components.shape

    def new_worker() -> Callable[[slice], tuple[Float64, Array]]:
        buffer = np.empty((min(_BLOCK_ROWS, len(X)), n_units), X.dtype)

        def worker(rows: slice) -> tuple[Float64, Array]:
            block = X[rows]
            products = np.matmul(block, components.T, out=buffer[: len(block)])
            sums = derivatives(products)
            return sums, products.T @ block

        return worker

    total, gradient = np.zeros(()), np.zeros((n_units, n_features))
    for sums, of_block in map_blocks(new_worker, len(X), _BLOCK_ROWS):
        total = total + sums
        gradient += of_block
    return total, gradient
