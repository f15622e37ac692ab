"""Evaluate features: comparisons of learners on one's own data, and predictions from few labels."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
