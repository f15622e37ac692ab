"""Methods that learn components from vectors, one file each."""

import lazy_loader

from ..utils.registry import Registry

#: Every learner by the name that the command line knows it by.
LEARNERS = Registry(__name__, __path__)

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"base": ["Learner"]})
