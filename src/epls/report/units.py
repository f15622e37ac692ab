"""What each unit answers to, how often, how strongly, and which units are like it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..learners.base import unit_rows
from ..metrics import redundancy

Array = NDArray[np.floating]
Indices = NDArray[np.intp]

N_BINS = 20
N_NEIGHBOURS = 6


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
    nearest, together : ndarray of int of shape (n, n_neighbours)
        The units with the most similar bases (by absolute cosine), and those whose answers go up and down with its own
        (by correlation).
    cosines, correlations : ndarray of shape (n, n_neighbours)
        How similar these are.
    redundancy : ndarray of shape (n,)
        The absolute cosine to the nearest basis.
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


def unit_statistics(codes: Array, bases: Array, n_top: int) -> UnitStatistics:
    """Figures of units from the codes of samples (n_samples, n_units) and their bases (n_units, n_features)."""
    answers = np.abs(codes)
    largest = answers.max(axis=0)
    n_top = min(n_top, len(answers))
    candidates = np.argpartition(answers, len(answers) - n_top, axis=0)[-n_top:]
    order = np.argsort(-np.take_along_axis(answers, candidates, axis=0), axis=0, kind="stable")
    unit_bases = unit_rows(np.asarray(bases, np.float32))
    nearest, cosines = _most_similar(np.abs(unit_bases @ unit_bases.T))
    together, correlations = _most_similar(_correlations(answers))
    return UnitStatistics(
        mean=answers.mean(axis=0, dtype=np.float64),
        largest=largest,
        often=(answers > largest / 2).mean(axis=0),
        wins=np.bincount(answers.argmax(axis=1), minlength=answers.shape[1]),
        histogram=_histograms(answers, largest),
        strongest=np.take_along_axis(candidates, order, axis=0).T,
        nearest=nearest,
        cosines=cosines,
        together=together,
        correlations=correlations,
        redundancy=redundancy(bases),
    )


def _most_similar(similarities: Array) -> tuple[Indices, Array]:
    """For each row its largest values but for the diagonal, the largest first: columns and values."""
    np.fill_diagonal(similarities, -np.inf)
    n_neighbours = min(N_NEIGHBOURS, len(similarities) - 1)
    columns = np.argsort(-similarities, axis=1, kind="stable")[:, :n_neighbours]
    return columns, np.take_along_axis(similarities, columns, axis=1)


def _correlations(answers: Array) -> Array:
    centred = answers - answers.mean(axis=0)
    deviations = np.linalg.norm(centred, axis=0)
    centred /= np.where(deviations > 0, deviations, 1)
    return centred.T @ centred


def _histograms(answers: Array, largest: Array) -> Indices:
    bins = np.minimum((answers / np.where(largest > 0, largest, 1) * N_BINS).astype(np.intp), N_BINS - 1)
    bins += np.arange(answers.shape[1]) * N_BINS
    return np.bincount(bins.ravel(), minlength=answers.shape[1] * N_BINS).reshape(-1, N_BINS)
