"""Learn features from unlabelled data with nothing to tune."""

import lazy_loader

# The public names are listed in `__init__.pyi`. Each is loaded when first used: scikit-learn and numba take a second.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
