"""Evaluate features: compare learners on your own data, and predict from few labels."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
