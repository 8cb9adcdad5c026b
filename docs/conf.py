"""The documentation site: ``python -m sphinx -W -n docs docs/_build/html``. Nothing is executed and nothing is fetched.

Notebooks are shown with the results that they hold; they are copied from ``notebooks/`` into ``docs/tutorials/``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))


def copy_notebooks() -> None:
    """Copy what changed of the notebooks, so that a second build reads nothing anew."""
    names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    for old in (DOCS / "tutorials").glob("*.ipynb"):
        if old.name not in names:
            old.unlink()
    for name in names:
        source, copy = ROOT / "notebooks" / name, DOCS / "tutorials" / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            shutil.copyfile(source, copy)


copy_notebooks()

project = "Triptych"
author = "the Triptych contributors"
version = next(
    line.split("=")[1].strip()
    for line in (ROOT / "setup.cfg").read_text("utf-8").splitlines()
    if line.startswith("version")
)
release = version

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "matplotlib.sphinxext.mathmpl",
]
exclude_patterns = ["_build"]

# Markdown
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "off"
nb_ipywidgets_js: dict[
    str, dict[str, str]
] = {}  # no notebook holds a widget, and nothing is loaded from elsewhere

# The Python interface
autodoc_typehints = "none"  # the docstrings say the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
default_role = "py:obj"

# Appearance: what the theme brings is served from the site itself
html_theme = "pydata_sphinx_theme"
html_title = "Triptych"
html_static_path = ["_static"]
html_css_files = ["triptych.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
copyright = "the Triptych contributors, MIT licence"
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def show_as_code(app, env, node, contnode):
    """Show a name in single backticks as code where the site has no entry for it: most are internal."""
    return contnode if node.get("refdomain") == "py" and node.get("reftype") == "obj" else None


def setup(app) -> None:
    """Connect what Sphinx has no setting for."""
    app.connect("missing-reference", show_as_code)
