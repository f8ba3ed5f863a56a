"""The site: the Markdown pages of the repository where they are, so that their links hold on a forge and here alike.

Sphinx reads the repository's root. Nothing is loaded from elsewhere when the site is built or looked at.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "src"))

import dray  # noqa: E402

project = "dray"
author = "the authors of dray"
copyright = author
version = release = dray.__version__

extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**", "examples/**", "deploy/**", "charts/**"]
exclude_patterns = [".*", "site", "src", "tests", "scripts", "build", "dist", "docs/site"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 6
myst_enable_extensions = ["deflist", "fieldlist"]
#: Highlighting of fences that are no language of their own.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
highlight_language = "none"
smartquotes = False  # two hyphens are the beginning of an option, and stay two hyphens

html_theme = "furo"
html_title = f"dray {release}"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["style"]
html_css_files = ["tables.css"]

#: The order of the pages. A page that is new is taken in by its folder.
_CONTENTS = (
    ("Tutorials", ("tutorials/*",)),
    (
        "How to",
        (
            "how-to/*",
            "several-machines",
            "../deploy/*/README",
            "../deploy/README",
            "../charts/*/README",
            "nodes",
            "interop",
            "dashboard",
            "podresources",
        ),
    ),
    ("Topics", ("scheduling", "containers", "admission", "classic")),
    ("The seeds", ("seeds/*",)),
    ("Tools", ("tools", "simulate*", "gallery/README", "gallery/*/README")),
    ("Reference", ("reference/*", "public-api", "conformance*")),
    ("Explanation", ("../ARCHITECTURE", "glossary", "decisions/README", "decisions/*")),
    ("Examples", ("../examples/README", "../examples/*/README")),
    ("The project", ("../README", "../CHANGELOG", "../CONTRIBUTING", "../SECURITY")),
    ("More", ("*",)),
)


def setup(app: Any) -> None:
    app.connect("source-read", _add_contents)


def _add_contents(app: Any, name: str, source: list[str]) -> None:
    """The index lists all pages; a forge shows it without this list."""
    if name != root_doc:
        return
    known = sorted(app.env.found_docs)
    listed: set[str] = {root_doc}
    for caption, patterns in _CONTENTS:
        found = [page for pattern in patterns for page in _matching(pattern, known) if page not in listed]
        listed.update(found)
        if found:
            entries = "\n".join(f"/{page}" for page in dict.fromkeys(found))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def _matching(pattern: str, pages: list[str]) -> list[str]:
    """Pages by a path below docs/, in which ``*`` stands for any name."""
    path = pattern.removeprefix("../") if pattern.startswith("../") else f"docs/{pattern}"
    wanted = re.compile("[^/]*".join(map(re.escape, path.split("*"))))
    return [page for page in pages if wanted.fullmatch(page)]
