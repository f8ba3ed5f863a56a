"""What a user may import is listed in docs/public-api.md; everything else is private by convention."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.paths import DOCS, EXAMPLES, ROOT

PAGE = DOCS / "public-api.md"
_IMPORT = re.compile(r"^\s*from (dray[\w.]*) import \(?([\w, ]+)", re.MULTILINE)


def listed() -> dict[str, set[str]]:
    """Names by module, from the page's sections."""
    found: dict[str, set[str]] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        found[heading.strip("`")] = set(re.findall(r"^- `(\w+)`", body, re.MULTILINE))
    return found


def used() -> Iterator[tuple[str, str, str]]:
    """File, module and name of every import that users are shown."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *EXAMPLES.rglob("*.py"), *EXAMPLES.rglob("*.md")]
    for path in pages:
        for module, names in _IMPORT.findall(path.read_text()):
            for name in names.split(","):
                if name.strip():
                    yield str(path.relative_to(ROOT)), module, name.split()[0]


@pytest.mark.parametrize("module", sorted(listed()))
def test_a_public_module_exports_exactly_what_is_listed(module: str) -> None:
    found = importlib.import_module(module)
    assert set(found.__all__) == listed()[module]
    for name in found.__all__:
        assert getattr(found, name) is not None


def test_users_are_shown_public_names_only() -> None:
    public = listed()
    private = [(f, m, n) for f, m, n in used() if n not in public.get(m, ()) and f"{m}.{n}" not in public]
    assert private == []


@pytest.mark.parametrize("module", ["dray.client", "dray.explain", "dray.placement"])
def test_importing_a_package_with_lazy_names_imports_nothing_heavy(module: str) -> None:
    code = f"import {module}, sys; print(*(m for m in ('ssl', 'yaml', 'msgspec', 'asyncio') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        importlib.import_module("dray.client").nothing  # noqa: B018
