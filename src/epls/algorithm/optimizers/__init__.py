"""Optimisers: how a batch moves the weights. The method does not depend on which."""

from .adam import Adam
from .base import Optimizer
from .vsgd import VSGD, CappedVSGD

OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "vsgd": VSGD, "capped_vsgd": CappedVSGD}

__all__ = ["OPTIMIZERS", "VSGD", "Adam", "CappedVSGD", "Optimizer"]
