"""Plots of what a model learned. Functions that draw on axes need matplotlib (``pip install "epls[plot]"``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .utils.tiles import colors_shown as colors_shown
from .utils.tiles import false_colors as false_colors
from .utils.tiles import filter_grid as filter_grid
from .utils.tiles import filter_pictures as filter_pictures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


def plot_filters(
    components: ArrayLike,
    patch_shape: tuple[int, ...],
    *,
    n_filters: int | None = 100,
    random_state: Any = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw :func:`filter_grid`, with the same parameters, on matplotlib axes."""
    axes = _axes(ax, figsize=(6, 6))
    axes.imshow(filter_grid(components, patch_shape, n_filters=n_filters, random_state=random_state))
    axes.set_axis_off()
    return axes


def plot_loss_curve(loss_curve: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Plot the error per sample for each epoch.

    Parameters
    ----------
    loss_curve : array-like
        The ``loss_curve_`` of a fitted learner.
    ax : matplotlib axes, optional
        The axes to draw on. By default, a new figure.
    """
    errors = np.asarray(loss_curve)
    axes = _axes(ax, figsize=(5, 3))
    axes.plot(np.arange(1, len(errors) + 1), errors)
    axes.set(xlabel="epoch", ylabel="squared error per sample", yscale="log")
    axes.locator_params(axis="x", integer=True)
    return axes


def plot_wins(winners: ArrayLike, n_components: int, *, ax: Axes | None = None) -> Axes:
    """Plot a histogram of the wins of units.

    Parameters
    ----------
    winners : array-like of int of shape (n_samples,)
        The winning unit of each sample, as returned by ``EPLS.winners``.
    n_components : int
        The number of units.
    ax : matplotlib axes, optional
        The axes to draw on. By default, a new figure.
    """
    counts = np.bincount(np.asarray(winners, dtype=np.intp), minlength=n_components)
    wins, units = np.unique(counts, return_counts=True)
    axes = _axes(ax, figsize=(5, 3))
    axes.bar(wins, units, width=0.8)
    axes.set(xlabel="wins", ylabel="units")
    axes.locator_params(axis="x", integer=True)
    return axes


def plot_comparison(
    names: Sequence[str], accuracies: Sequence[float], deviations: Sequence[float], *, ax: Axes | None = None
) -> Axes:
    """Plot accuracies as bars, with the best at the top.

    Parameters
    ----------
    names : sequence of str
        The names of the bars.
    accuracies, deviations : sequence of float
        The percentage classified correctly, and its standard deviation over folds.
    ax : matplotlib axes, optional
        The axes to draw on. By default, a new figure.
    """
    order = np.argsort(accuracies)
    axes = _axes(ax, figsize=(7, 0.8 + 0.32 * len(names)))
    values = np.asarray(accuracies)[order]
    colors = ["tab:orange" if names[k].startswith("epls") else "tab:blue" for k in order]
    axes.barh(np.arange(len(names)), values, xerr=np.asarray(deviations)[order], color=colors, height=0.7)
    axes.set_yticks(np.arange(len(names)), [names[k] for k in order])
    for place, value in enumerate(values):
        axes.annotate(f" {value:.1f}", (0, place), va="center", color="white" if value > 10 else "black")
    axes.set_xlabel("% correct (line: standard deviation over folds)")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _axes(ax: Axes | None, **figure: Any) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plotting requires matplotlib: pip install 'epls[plot]'") from error
    return plt.subplots(layout="constrained", **figure)[1]
