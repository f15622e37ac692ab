"""What each unit responds to, how often and how strongly, and which units are similar to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.moments import unit_rows
from ..metrics import lifetime_sparsity, population_sparsity, unresponsive_units
from ..utils.threads import row_blocks
from ..utils.types import Array, Indices

N_BINS = 20
N_NEIGHBORS = 6
_UNITS_AT_A_TIME = 64
_SAMPLES_AT_A_TIME = 2048


@dataclass(frozen=True)
class UnitStatistics:
    """Figures of each of ``n`` units over some samples.

    Attributes
    ----------
    mean, largest : ndarray of shape (n,)
        The mean and the largest absolute response.
    often : ndarray of shape (n,)
        The fraction of samples with a response above half of the unit's largest.
    wins : ndarray of int of shape (n,)
        The number of samples for which the unit responds more strongly than all others.
    histogram : ndarray of int of shape (n, 20)
        A histogram of the responses, from 0 to the unit's largest.
    strongest : ndarray of int of shape (n, n_top)
        The samples with the strongest responses, the strongest first.
    nearest, together : ndarray of int of shape (n, n_neighbors)
        The units with the most similar components (by absolute cosine), and those with the most similar responses (by
        correlation).
    cosines, correlations : ndarray of shape (n, n_neighbors)
        The cosines and correlations of these units.
    redundancy : ndarray of shape (n,)
        The absolute cosine to the nearest component.
    lifetime_sparsity : ndarray of shape (n,)
        See :func:`epls.metrics.lifetime_sparsity`.
    population_sparsity : ndarray of shape (n_samples,)
        The population sparsity of each sample; see :func:`epls.metrics.population_sparsity`.
    dead : ndarray of int
        The units that respond to all samples alike; see :func:`epls.metrics.unresponsive_units`.
    """

    mean: Array
    largest: Array
    often: Array
    wins: Indices
    histogram: Indices
    strongest: Indices
    nearest: Indices
    cosines: Array
    together: Indices
    correlations: Array
    redundancy: Array
    lifetime_sparsity: Array
    population_sparsity: Array
    dead: Indices


def unit_statistics(codes: Array, components: Array, n_top: int, units: Indices | None = None) -> UnitStatistics:
    """Compute figures of units from their components and the codes of samples.

    Parameters
    ----------
    codes : ndarray of shape (n_samples, n_units)
        The codes of all units.
    components : ndarray of shape (n, n_features)
        The components of the units to compute figures for.
    n_top : int
        The number of strongest samples to find.
    units : ndarray of int of shape (n,) or None, default=None
        The units to compute figures for; None means all. Wins, population sparsity and dead units consider all units.
        Similar units are searched among the given units.
    """
    answers = np.abs(codes)
    wins, own = _wins(answers), codes
    if units is not None:
        own, answers, wins = codes[:, units], answers[:, units], wins[units]
    unit_components = unit_rows(np.asarray(components, np.float32))
    nearest, cosines = _most_similar(np.abs(unit_components @ unit_components.T))
    together, correlations = _most_similar(_correlations(answers))
    strongest, often, histogram = _by_unit(answers, min(n_top, len(answers)))
    return UnitStatistics(
        mean=answers.mean(axis=0, dtype=np.float64),
        largest=answers.max(axis=0),
        often=often,
        wins=wins,
        histogram=histogram,
        strongest=strongest,
        nearest=nearest,
        cosines=cosines,
        together=together,
        correlations=correlations,
        redundancy=cosines[:, 0] if cosines.shape[1] else np.zeros(len(components)),
        lifetime_sparsity=lifetime_sparsity(own),
        population_sparsity=population_sparsity(codes),
        dead=unresponsive_units(codes),
    )


def _by_unit(answers: Array, n_top: int) -> tuple[Indices, Array, Indices]:
    """Compute the strongest samples, shares of strong responses and histograms, some units at a time."""
    strongest, often, histograms = [], [], []
    for units in row_blocks(answers.shape[1], _UNITS_AT_A_TIME):
        some = np.ascontiguousarray(answers[:, units].T)
        largest = some.max(axis=1, keepdims=True)
        candidates = np.argpartition(some, some.shape[1] - n_top, axis=1)[:, -n_top:]
        order = np.argsort(-np.take_along_axis(some, candidates, axis=1), axis=1, kind="stable")
        strongest.append(np.take_along_axis(candidates, order, axis=1))
        often.append((some > largest / 2).mean(axis=1))
        bins = np.minimum((some / np.where(largest > 0, largest, 1) * N_BINS).astype(np.intp), N_BINS - 1)
        bins += np.arange(len(some))[:, None] * N_BINS
        histograms.append(np.bincount(bins.ravel(), minlength=len(some) * N_BINS).reshape(-1, N_BINS))
    return np.concatenate(strongest), np.concatenate(often), np.concatenate(histograms)


def _wins(answers: Array) -> Indices:
    """Count the samples for which each unit is stronger than all others. Ties and silent units do not count."""
    wins = np.zeros(answers.shape[1], np.intp)
    for samples in row_blocks(len(answers), _SAMPLES_AT_A_TIME):
        some = answers[samples]
        winners = some.argmax(axis=1)
        first = some[np.arange(len(some)), winners]
        n_as_strong = np.count_nonzero(some == first[:, None], axis=1)
        wins += np.bincount(winners[(n_as_strong == 1) & (first > 0)], minlength=len(wins))
    return wins


def _most_similar(similarities: Array) -> tuple[Indices, Array]:
    """For each row, return the columns and values of its largest entries off the diagonal, the largest first."""
    np.fill_diagonal(similarities, -np.inf)
    n_neighbors = min(N_NEIGHBORS, len(similarities) - 1)
    columns = np.argsort(-similarities, axis=1, kind="stable")[:, :n_neighbors]
    return columns, np.take_along_axis(similarities, columns, axis=1)


def _correlations(answers: Array) -> Array:
    centered = answers - answers.mean(axis=0)
    deviations = np.linalg.norm(centered, axis=0)
    centered /= np.where(deviations > 0, deviations, 1)
    return centered.T @ centered
