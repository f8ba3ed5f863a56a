"""ARCHITECTURE.md leads to the code: every package has a paragraph, and what the page names is there."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src" / "dray"


@pytest.mark.parametrize(
    "package", sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")), ids=lambda name: str(name)
)
def test_every_package_has_a_paragraph(package: str) -> None:
    assert f"**`{package}`**" in PAGE


def test_every_file_and_folder_that_is_named_is_there() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w*(?:\.py)?)`", PAGE))
    missing = [
        path
        for path in sorted(named)
        if not any(
            (root / f"{path.rstrip('/')}{ending}").exists()
            for root in (ROOT, SOURCE)
            for ending in ("", ".py")
        )
        and not list(SOURCE.glob(f"*/{path.rstrip('/')}*"))
    ]
    assert named
    assert missing == []


def test_every_module_that_is_named_is_there() -> None:
    """Paragraphs name modules of their own package, and sometimes of others."""
    paragraphs = re.findall(r"^\*\*`\w+`\*\*(.*?)(?=^\*\*`|^#)", PAGE, re.MULTILINE | re.DOTALL)
    named = {name for text in paragraphs for name in re.findall(r"`([a-z_]+)`", text)}
    modules = {path.stem for path in SOURCE.rglob("*") if path.suffix in ("", ".py")}
    assert named - modules == {"decide", "unittest"}  # a function, and a module of Python
