"""Pages to open in a browser: what a model has learned, and how learners compare. One file each, without network."""

from .compare import comparison_page
from .model import model_page

__all__ = ["comparison_page", "model_page"]
