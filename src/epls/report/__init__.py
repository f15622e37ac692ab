"""Pages for the browser, one file each: about data, about what a model has learned, and about comparisons."""

from .compare import comparison_page
from .explore import Computed, Learned, explore
from .model import model_page

__all__ = ["Computed", "Learned", "comparison_page", "explore", "model_page"]
