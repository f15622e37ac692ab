"""Table 2 of Romero, Radeva and Gatta (2014): accuracy on the test set of STL-10, mean (std) over folds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A row of the table; with a plain learner's name, encoder, and whether the signs were split."""

    method: str
    learner: str
    encoder: str
    split_sign: bool
    whiten: bool
    accuracy: float
    std: float | None


TABLE_2 = (
    Row("RICA, 1600, natural", "rica", "natural", False, False, 52.9, None),
    Row("OMP-1, 1600, natural", "omp", "natural", False, False, 51.8, 0.47),
    Row("OMP-1, whitening, 1600, natural", "omp", "natural", False, True, 53.1, 0.52),
    Row("OMP-1, whitening, 1600x2, natural", "omp", "natural", True, True, 54.5, 0.66),
    Row("OMP-1, whitening, 1600x2, SC", "omp", "sparse_coding", True, True, 59.0, 0.80),
    Row("Raw pixels", "raw", "natural", False, False, 31.8, 0.62),
    Row("ICA, whitening, complete, natural", "ica", "natural", False, True, 48.0, 1.47),
    Row("K-means-tri, whitening, 1600", "kmeans", "triangle", False, True, 51.5, 1.73),
    Row("Sparse filtering, 1600, natural", "sparse_filtering", "natural", False, False, 53.5, 0.53),
    Row("EPLS, 1600, natural", "epls", "natural", False, False, 56.6, 0.66),
    Row("EPLS, 1600x2, natural", "epls", "natural", True, False, 56.9, 0.50),
    Row("EPLS, 1600x2, SC", "epls", "sparse_coding", True, False, 61.0, 0.58),
)


def row_for(learner: str, encoder: str, split_sign: bool, whiten: bool) -> Row | None:
    """The paper's row for such an experiment, if it has one."""
    wanted = (learner, encoder, split_sign, whiten)
    return next((row for row in TABLE_2 if (row.learner, row.encoder, row.split_sign, row.whiten) == wanted), None)
