"""Pages for the browser, one file each: what is in data, what a model has learned, how learners compare."""

from .compare import comparison_page
from .explore import explore
from .model import model_page

__all__ = ["comparison_page", "explore", "model_page"]
