"""How samples become codes once the components are learned: a file for each way."""

import lazy_loader

from ..utils.registry import Registry

#: Every encoder by the name that ``ImageFeatures`` and the command line know it by.
ENCODERS = Registry(__name__, __path__)

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"base": ["Encoder"]})
