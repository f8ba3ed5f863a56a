"""Every page that tells the reader what to type, typed into a shell from the first command to the clean-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.paths import DOCS, EXAMPLES
from tests.support.process import DrayProcess, dray_process

pytestmark = pytest.mark.xdist_group("pages")

TUTORIALS = list((DOCS / "tutorials").glob("*.md"))
README = sorted(p.parent.name for p in EXAMPLES.glob("*/README.md"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    """For the pages that ask for a cluster from ``dray up``."""
    with dray_process(tmp_path_factory.mktemp("pages"), "up") as running:
        yield running


@pytest.mark.parametrize("name", [*sorted(f"tutorials/{p.name}" for p in TUTORIALS), "podresources.md"])
def test_a_tutorial_works_as_it_stands(name: str, tool: Callable[[str], str]) -> None:
    pages.execute(DOCS / name, kubectl=tool("kubectl-1.36"))


@pytest.mark.parametrize("name", README)
def test_an_example_works_as_its_readme_says(
    name: str, tool: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    page: Path = EXAMPLES / name / "README.md"
    kubeconfig = None
    if not pages.starts_a_cluster(page.read_text()):
        kubeconfig = request.getfixturevalue("cluster").kubeconfig
    pages.execute(page, kubeconfig=kubeconfig, kubectl=tool("kubectl-1.36"))
