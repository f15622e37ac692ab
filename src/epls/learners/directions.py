"""Directions: lines through the origin near which samples lie, each for an equal share of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..algorithm.target import AuctionTarget
from ..balanced.weights import drawn
from ..data.moments import unit_rows
from ..data.samples import Samples
from ..solvers.dictionary import first_components, learn_in_rounds
from ..utils.fields import ROUNDS
from ..utils.threads import product
from ..utils.types import Array
from .base import Learner

_ROWS_PER_UNIT = 32  # of a mini-batch: with fewer, balance would cost more than it would over all samples


class Directions(Learner):
    """Directions of both signs, as many as the data need: dense regions of directions get many, sparse ones few.

    The balanced competition of :class:`EPLS`, for units with the activation \\|d·x\\|. Each sample is won by one
    direction d of unit norm, and all win equally often, such that the sum of \\|d·x\\| is large: the ideal target of
    Algorithm 1. Then each direction becomes the normalised sum of (d·x) x over the samples it won, so their sign does
    not matter. Samples compete with their energy \\|x\\|²: they are drawn in proportion to it and scaled to unit norm.
    Without balance, this is OMP-1 (:class:`OMP`), which maximises the explained energy.

    Codes are the products with the directions. For patches of images, take the soft threshold.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of directions, at most the number of samples. None uses 100, or the number of samples if less.
    max_iter : int, default=10
        The maximum number of rounds over the samples.
    tol : float, default=1e-4
        Learning stops when a round reduces the unexplained energy by no more than this fraction.
    random_state : int, RandomState instance or None, default=None
        Determines the first directions, which are random samples, and the mini-batches.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions.
    loss_curve_ : list of float
        The fraction of the samples' energy that the winners do not explain, in each round before it improves them.
    n_redrawn_, n_unused_ : list of int, int
        As those of :class:`OMP`. They are 0, because all directions win equally often.
    n_iter_ : int
        The number of rounds.

    Examples
    --------
    >>> X = [[2.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, 4.0]]
    >>> codes = Directions(2, random_state=1).fit_transform(X)
    >>> abs(codes).max(axis=1)  # one direction for each axis
    array([2., 3., 1., 4.])
    """

    whitens = True
    own_encoder = "soft_threshold"
    saved: ClassVar[dict[str, Any]] = Learner.saved | ROUNDS

    def __init__(
        self,
        n_components: int | None = None,
        *,
        max_iter: int = 10,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = unit_rows(_drawn_by_energy(samples.array(), random))
        components = first_components(X, self.checked_n_components(len(X)), random)
        n_units = len(components)
        target = AuctionTarget(n_units)

        def improve() -> tuple[float, NDArray[np.int64]]:
            sums, explained = np.zeros_like(components), 0.0
            target.start_epoch(len(X))
            for rows in np.array_split(random.permutation(len(X)), max(1, len(X) // (_ROWS_PER_UNIT * n_units))):
                batch = X[rows]
                products = product(batch, components.T)
                winners = target.assign(np.abs(products))
                won = products[np.arange(len(batch)), winners]
                codes = sparse.csr_array((won, winners, np.arange(len(batch) + 1)), shape=products.shape)
                sums += codes.T @ batch
                explained += float(won @ won)
            moved = sums.any(axis=1)
            components[moved] = unit_rows(sums[moved])
            return max(1 - explained / len(X), 0.0), target.counts

        return learn_in_rounds(X, components, self.epochs(self.max_iter), random, improve, tol=self.tol)


def _drawn_by_energy(X: Array, random: np.random.RandomState) -> Array:
    """Draw as many samples, each in proportion to its squared norm, in even steps."""
    largest = float(np.abs(X).max())
    relative = X / X.dtype.type(largest or 1)
    energies = np.einsum("ij,ij->i", relative, relative, dtype=np.float64)
    return X[drawn(energies, len(X), offset=1 - random.uniform())] if largest > 0 else X
