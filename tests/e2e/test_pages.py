"""Every page that tells the reader what to type, typed into a shell from the first command to the clean-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.paths import DOCS, EXAMPLES, ROOT
from tests.support.process import DrayProcess, dray_process

#: Pages whose console blocks are typed: every tutorial, how-to page and page about a seed, and these.
TYPED = ("classic.md", "nodes.md", "podresources.md", "tools.md")
FOLDERS = ("tutorials", "how-to", "seeds")


def typed_pages() -> list[str]:
    found = [p.relative_to(DOCS) for folder in FOLDERS for p in sorted((DOCS / folder).glob("*.md"))]
    return [*TYPED, *(str(p) for p in found if "```console" in (DOCS / p).read_text())]


README = sorted(p.parent.name for p in EXAMPLES.glob("*/README.md"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    """For the pages that ask for a cluster from ``dray up``."""
    with dray_process(tmp_path_factory.mktemp("pages"), "up") as running:
        yield running


@pytest.mark.xdist_group("pages")
@pytest.mark.parametrize("name", typed_pages())
def test_a_page_works_as_it_stands(name: str, tool: Callable[[str], str]) -> None:
    pages.execute(DOCS / name, kubectl=tool("kubectl-1.36"))


@pytest.mark.xdist_group("pages")
def test_the_pages_of_the_seeds_can_be_typed_one_after_the_other(tool: Callable[[str], str]) -> None:
    """On one data directory, which three releases use in turn."""
    names = ("kubernetes-1.27", "kubernetes-1.30", "kubernetes-1.32", "hands-on")
    forget = "rm -rf ~/.kube/cache/discovery"  # dray up prints such a line
    pages.execute(
        *(DOCS / "seeds" / f"{name}.md" for name in names), kubectl=tool("kubectl-1.36"), before=forget
    )


@pytest.mark.xdist_group("examples")
def test_the_tour_of_the_readme_works_after_make_up(tool: Callable[[str], str]) -> None:
    pages.execute(ROOT / "README.md", kubectl=tool("kubectl-1.36"), before="dray up --detach")


@pytest.mark.xdist_group("examples")
@pytest.mark.parametrize("name", README)
def test_an_example_works_as_its_readme_says(
    name: str, tool: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    page: Path = EXAMPLES / name / "README.md"
    kubeconfig = None
    if not pages.starts_a_cluster(page.read_text()):
        kubeconfig = request.getfixturevalue("cluster").kubeconfig
    pages.execute(page, kubeconfig=kubeconfig, kubectl=tool("kubectl-1.36"))
