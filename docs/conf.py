"""How Sphinx builds this folder: ``python -m sphinx -W -b html docs <output>``.

Owns the settings of the site. Must never import what compiles: pages are read from Markdown and docstrings.
"""

from __future__ import annotations

from importlib.metadata import version as _version
from typing import Any

project = "shmcache"
author = "The shmcache contributors"
release = version = _version("shmcache")
html_title = f"shmcache {release}"
html_show_copyright = False

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_static_path: list[str] = []

# Headings can be linked to by their text, as on code hosting sites.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 100

# Every name that a docstring refers to is on a page, those of other projects excepted.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(np|npt|numpy|typing|collections)\..*"),
    ("py:class", r"(Any|Iterable|Sequence|SupportsIndex|Literal|Int32Array|optional|path-like|array-like)"),
]


def _public_name(app: Any, env: Any, node: Any, content: Any) -> Any:
    """A link for a name that a docstring of another module uses without its package, as the code there does."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    for module in ("shmcache", "shmcache.errors"):
        target = f"{module}.{node['reftarget']}"
        found = domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], target, node, content)
        if found is not None:
            return found
    return None


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("missing-reference", _public_name)
