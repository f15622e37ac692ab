"""Evaluate features: comparisons of learners on one's own data, and the paper's experiment."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
