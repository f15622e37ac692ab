"""The layer computed by torch, on any device."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError('epls.torch, and device=... of a model, need torch: pip install "epls[torch]"') from error
