"""What each unit answers to, how often, how strongly, and which units are like it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..metrics import lifetime_sparsity, population_sparsity, unresponsive_units
from ..solvers.dictionary import unit_rows
from ..utils.threads import row_blocks
from ..utils.types import Array, Indices

N_BINS = 20
N_NEIGHBORS = 6
_UNITS_AT_A_TIME = 64
_SAMPLES_AT_A_TIME = 2048


@dataclass(frozen=True)
class UnitStatistics:
    """Figures of each unit over some samples; ``n`` units.

    Attributes
    ----------
    mean, largest : ndarray of shape (n,)
        Mean and largest absolute answer.
    often : ndarray of shape (n,)
        The share of samples that it answers to with more than half of its largest answer.
    wins : ndarray of int of shape (n,)
        For how many samples it answers more strongly than all others.
    histogram : ndarray of int of shape (n, 20)
        How many answers are how strong, from 0 to the unit's largest.
    strongest : ndarray of int of shape (n, n_top)
        The samples that it answers to most strongly, the first one most.
    nearest, together : ndarray of int of shape (n, n_neighbors)
        The units with the most similar components (by absolute cosine), and those whose answers go up and down with its
        own (by correlation).
    cosines, correlations : ndarray of shape (n, n_neighbors)
        How similar these are.
    redundancy : ndarray of shape (n,)
        The absolute cosine to the nearest component.
    lifetime_sparsity : ndarray of shape (n,)
        See :func:`epls.metrics.lifetime_sparsity`.
    population_sparsity : ndarray of shape (n_samples,)
        Of each sample.
    dead : ndarray of int
        The units that answer to all samples alike: see :func:`epls.metrics.unresponsive_units`.
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
    """Figures of units from the codes of samples, and their components.

    Parameters
    ----------
    codes : ndarray of shape (n_samples, n_units)
        The codes of all units.
    components : ndarray of shape (n, n_features)
        The components of the units that the figures are of.
    n_top : int
        How many of the strongest samples are found.
    units : ndarray of int of shape (n,) or None, default=None
        The units that the figures are of; None is all. Wins, population sparsity and dead units are of all units, and
        similar units are sought among these.
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
    """Strongest samples, share of strong answers and histograms, of some units at a time."""
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
    """For how many samples each unit is stronger than all others; what two share, or none answers to, is no win."""
    wins = np.zeros(answers.shape[1], np.intp)
    for samples in row_blocks(len(answers), _SAMPLES_AT_A_TIME):
        some = answers[samples]
        winners = some.argmax(axis=1)
        first = some[np.arange(len(some)), winners]
        n_as_strong = np.count_nonzero(some == first[:, None], axis=1)
        wins += np.bincount(winners[(n_as_strong == 1) & (first > 0)], minlength=len(wins))
    return wins


def _most_similar(similarities: Array) -> tuple[Indices, Array]:
    """For each row its largest values but for the diagonal, the largest first: columns and values."""
    np.fill_diagonal(similarities, -np.inf)
    n_neighbors = min(N_NEIGHBORS, len(similarities) - 1)
    columns = np.argsort(-similarities, axis=1, kind="stable")[:, :n_neighbors]
    return columns, np.take_along_axis(similarities, columns, axis=1)


def _correlations(answers: Array) -> Array:
    centered = answers - answers.mean(axis=0)
    deviations = np.linalg.norm(centered, axis=0)
    centered /= np.where(deviations > 0, deviations, 1)
    return centered.T @ centered
