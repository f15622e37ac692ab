"""From samples to codes, given learned components: one file for each method."""

import lazy_loader

from ..utils.registry import Registry

#: Every encoder, by its name in ``ImageFeatures`` and on the command line.
ENCODERS = Registry(__name__, __path__)

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"base": ["Encoder"]})
