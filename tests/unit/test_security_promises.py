"""Every promise of SECURITY.md names a test, and the test is there."""

from __future__ import annotations

import re

from tests.support.paths import ROOT


def rows() -> list[str]:
    """The rows of the tables, without their heads."""
    text = (ROOT / "SECURITY.md").read_text()
    return [
        row for table in re.findall(r"^\|[-|]+\|\n((?:\|.*\n)+)", text, re.M) for row in table.splitlines()
    ]


def known_tests() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found.update(re.findall(r"def (test_\w+)\(", path.read_text()))
    return found


def test_every_row_of_the_tables_names_a_test() -> None:
    assert len(rows()) > 15
    assert [row for row in rows() if not re.search(r"`test_\w+`", row)] == []


def test_every_test_that_is_named_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert set(re.findall(r"`(test_\w+)`", text)) - known_tests() == set()
    files = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert [name for name in files if not (ROOT / name).exists()] == []
