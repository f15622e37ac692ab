"""Dictionary learning: components that explain samples with codes, improved in rounds or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.moments import center_and_scale, unit_rows
from ..data.samples import ArraySamples
from ..utils.types import Array

#: Samples per component in a mini-batch. With too few, the codes say little about a component.
SAMPLES_PER_COMPONENT = 4


def random_components(X: Array, n_components: int, random: np.random.RandomState) -> Array:
    """Return different samples, scaled to unit norm; samples of zeros only if there are no others."""
    order = random.permutation(len(X))
    has_norm = np.asarray(X.any(axis=1))[order]
    chosen = np.concatenate([order[has_norm], order[~has_norm]])[:n_components]
    return unit_rows(X[np.sort(chosen)])


def first_components(X: Array, n_components: int, random: np.random.RandomState) -> Array:
    """Return random samples of unit norm, or random directions if only samples of zeros are left."""
    components = random_components(X, n_components, random)
    empty = ~components.any(axis=1)
    components[empty] = unit_rows(random.standard_normal((int(empty.sum()), X.shape[1])))
    return components


def improve_components(components: Array, code_squares: Array, code_products: Array) -> None:
    """Set each component in turn to the best one of unit norm, given S'S and S'X for codes S of samples X.

    A component that no sample uses is unchanged.
    """
    for k in np.flatnonzero(np.diagonal(code_squares) > 0):
        wanted = code_products[k] - code_squares[k] @ components + code_squares[k, k] * components[k]
        norm = float(np.linalg.norm(wanted))
        if norm > 0:
            components[k] = wanted / norm


def replace_unused(
    components: Array, n_uses: NDArray[np.int64], X: Array, random: np.random.RandomState
) -> NDArray[np.intp]:
    """Replace components that no sample uses by random samples; return which."""
    unused = np.flatnonzero(n_uses == 0)
    if len(unused) > 0:
        components[unused] = first_components(X, len(unused), random)
    return unused


def learn_in_rounds(
    X: Array,
    components: Array,
    epochs: Generator[int],
    random: np.random.RandomState,
    improve: Callable[[], tuple[float, NDArray[np.int64]]],
    redrawn: Callable[[NDArray[np.intp]], None] | None = None,
    tol: float | None = None,
) -> dict[str, Any]:
    """Improve components in rounds over the samples, and return the attributes of a fitted dictionary learner.

    ``improve`` changes the components in place, and returns the mean loss of a sample and the number of samples that
    use each component. Before the next round, unused components are drawn again, and ``redrawn`` is called with their
    numbers. Learning ends early when a round reduces the loss by no more than a fraction ``tol``.
    """
    losses: list[float] = []
    n_redrawn: list[int] = []
    n_uses = np.ones(len(components), np.int64)
    with closing(epochs):
        for epoch in epochs:
            if epoch > 0:
                unused = replace_unused(components, n_uses, X, random)
                n_redrawn.append(len(unused))
                if redrawn is not None:
                    redrawn(unused)
            loss, n_uses = improve()
            losses.append(loss)
            if tol is not None and epoch > 0 and losses[-2] - losses[-1] <= tol * losses[-2]:
                break
    return {
        "components_": components,
        "loss_curve_": losses,
        "n_redrawn_": n_redrawn,
        "n_unused_": int(np.sum(n_uses == 0)),
        "n_iter_": len(losses),
    }


class CodedBatch(NamedTuple):
    """The sum of the losses of a batch, the uses of each component, and S'S and S'X for its codes S and samples X."""

    loss: float
    n_uses: NDArray[np.int64]
    squares: Array
    products: Array


def learn_online(
    X: Array,
    components: Array,
    epochs: Generator[int],
    random: np.random.RandomState,
    coded: Callable[[Array], CodedBatch],
    redrawn: Callable[[NDArray[np.intp]], None] | None = None,
) -> dict[str, Any]:
    """Learn in rounds of mini-batches (Mairal et al. 2009); ``coded`` encodes a batch with the current components.

    After each batch, every component becomes the best one for the codes of all batches so far, with more weight on
    recent batches.
    """
    squares = np.zeros((len(components), len(components)), components.dtype)
    products = np.zeros_like(components)
    samples, n_together, n_batches = ArraySamples(X), SAMPLES_PER_COMPONENT * len(components), 0

    def improve() -> tuple[float, NDArray[np.int64]]:
        nonlocal n_batches
        loss, n_uses = 0.0, np.zeros(len(components), np.int64)
        for _, rows in samples.epoch(random, n_together, n_even=samples.n_batches(n_together)):
            batch = coded(X[rows])
            loss += batch.loss
            n_uses += batch.n_uses
            n_batches += 1
            kept = (1 - 1 / n_batches) ** 3
            for so_far, new in ((squares, batch.squares), (products, batch.products)):
                so_far *= kept
                so_far += new
            improve_components(components, squares, products)
        return loss / len(X), n_uses

    def forget(which: NDArray[np.intp]) -> None:
        """Forget the past of redrawn components, which would restore them."""
        squares[which] = 0
        squares[:, which] = 0
        products[which] = 0
        if redrawn is not None:
            redrawn(which)

    return learn_in_rounds(X, components, epochs, random, improve, forget)


def check_scale(X: Array) -> None:
    """Raise an error if the squares of samples are so small or large that the penalty, or they, would be rounded away.

    Fourth powers of the scale, summed over all samples, must also be in the range of their type.
    """
    _, scale = center_and_scale(X)
    least, most = 1e-10, 1e6 if X.dtype == np.float32 else 1e10
    if not least < scale < most and X.any():
        raise ValueError(
            f"the samples have a standard deviation of {scale:.1e}, but {X.dtype} supports {least:g} to {most:g}: "
            f"scale them to about 1"
        )
