"""Optimisers: how a batch moves the weights. The method works with any of them."""

from .adam import Adam
from .base import Optimizer
from .vsgd import VSGD, CappedVSGD

OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "vsgd": VSGD, "capped_vsgd": CappedVSGD}

__all__ = ["OPTIMIZERS", "VSGD", "Adam", "CappedVSGD", "Optimizer"]
