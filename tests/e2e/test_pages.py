"""Every page that tells the reader what to type, typed into a shell from the first command to the clean-up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import pages
from tests.support.paths import DOCS

pytestmark = pytest.mark.xdist_group("pages")


@pytest.mark.parametrize("name", sorted(p.name for p in (DOCS / "tutorials").iterdir()))
def test_a_tutorial_works_as_it_stands(name: str, tool: Callable[[str], str]) -> None:
    pages.execute(DOCS / "tutorials" / name, kubectl=tool("kubectl-1.36"))
