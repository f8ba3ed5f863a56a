"""The gallery's pages are what the tools say, and what they say names the cause."""

from __future__ import annotations

import re

import pytest

from tests.support.gallery import GALLERY, Puzzle, index, puzzles
from tests.support.paths import CONFORMANCE

#: What a person must be told in each puzzle.
CAUSES = {
    "01-typo-in-attribute": "did you mean gpu.example.com/model?",
    "02-tainted-devices": "add the toleration {key: gpu.example.com/overheated",
    "03-constraint-across-roots": "lower the count to 2, or drop the constraint",
    "04-counters-exhausted": "card-0/memory: 80Gi needed, 40Gi left",
    "05-all-taken": "wait for or delete default/notebook-gpu (default/notebook)",
    "06-wrong-class": "class nic.example.com selects none of these devices",
    "07-pool-incomplete": "shows 1 of 2 slices of generation 1",
    "08-node-cpu-full": "free 2 of cpu on node-1",
    "09-error-on-one-device": '"model" in device.attributes["gpu.example.com"] && (',
    "10-admin-label-missing": "resource.kubernetes.io/admin-access=true",
}

each = pytest.mark.parametrize("puzzle", puzzles(), ids=lambda puzzle: puzzle.folder.name)


def test_there_is_a_cause_for_every_puzzle() -> None:
    assert [puzzle.folder.name for puzzle in puzzles()] == list(CAUSES)


@each
def test_advice_names_the_cause(puzzle: Puzzle) -> None:
    explanation = puzzle.explain()
    assert not explanation.well
    assert CAUSES[puzzle.folder.name] in "\n".join(explanation.advice)


@each
def test_page_is_what_the_tool_says_today(puzzle: Puzzle) -> None:
    assert (puzzle.folder / "README.md").read_text() == puzzle.page()


def test_index_lists_all_pages() -> None:
    assert (GALLERY / "README.md").read_text() == index()


#: Claims and attributes have other names in the recordings, and what is refused kubectl tells of in its own words.
_NAMES = re.compile(
    r"(?<=claim )\S+(?=: selector)|(?<=no such key: )\w+|requests\[\d\]"
    r"|(The ResourceClaim|ResourceClaim.resource.k8s.io) \"[^\"]+\"(?= is invalid)"
)
#: No recording has a node without enough of something.
_NOT_RECORDED = "08-node-cpu-full"


@pytest.fixture(scope="module")
def recorded() -> str:
    """All that Kubernetes 1.36 has said while it was recorded."""
    folders = [CONFORMANCE / name for name in ("behaviour-136", "api-136")]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip("the recordings are not beside the repository")
    files = (path for folder in folders for path in sorted(folder.glob("*.json")))
    said = (
        path.read_text()
        for path in files
        if path.name in ("val-claim-admin.json",) or path.parent.name[0] == "b"
    )
    return _NAMES.sub("X", "".join(said).replace('\\"', '"'))


@each
def test_what_kubernetes_says_is_in_its_own_words(puzzle: Puzzle, recorded: str) -> None:
    if puzzle.folder.name != _NOT_RECORDED:
        assert _NAMES.sub("X", puzzle.scheduler) in recorded
