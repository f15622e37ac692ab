"""The site of the documentation: `make docs` builds it in docs/_build/html, with warnings as errors."""

import sys
import warnings
from pathlib import Path

from epls import __version__

HERE = Path(__file__).parent

project = "epls"
copyright = "the epls developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
toc_object_entries_show_parents = "hide"
suppress_warnings = ["config.cache"]  # of the function in sphinx_gallery_conf
highlight_language = "none"  # blocks without a language are commands

myst_heading_anchors = 3
autodoc_typehints = "none"  # numpydoc's types are written for readers
numpydoc_show_class_members = False


def warnings_fail(gallery_conf, script, when):
    """Make warnings errors while an example runs."""
    warnings.simplefilter("error" if when == "before" else "default")


sphinx_gallery_conf = {
    "reset_modules": ("matplotlib", warnings_fail),
    "reset_modules_order": "both",
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("epls",),
    "download_all_examples": False,
    "show_signature": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "epls"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {page: [] for page in ("architecture", "compared_with", "how_it_works", "index")}
# The site has a folder for each version, and one list of them beside the folders: .github/workflows/docs.yml.
html_theme_options = {
    "check_switcher": False,
    "navbar_end": ["version-switcher", "theme-switcher"],
    "switcher": {
        "json_url": "../switcher.json",
        "version_match": "dev" if "dev" in release else ".".join(release.split(".")[:2]),
    },
    "footer_end": [],
    "footer_start": ["copyright"],
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
}


def from_elsewhere(app, what, name, obj, skip, options):
    """Leave out what classes inherit from scikit-learn and Python."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None) or "epls"
    return None if home.startswith("epls") else True


def setup(app):
    sys.path.insert(0, str(HERE))
    from figures import draw_all

    app.connect("builder-inited", lambda app: draw_all(HERE / "figures"))
    app.connect("autodoc-skip-member", from_elsewhere)
