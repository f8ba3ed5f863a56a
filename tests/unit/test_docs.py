"""What ``make check`` finds wrong with pages. The pages themselves are checked by ``make check``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import docs_check
import reference


@pytest.mark.parametrize(
    ("command", "problems"),
    [
        ("dray up --emulate 1.27 --detach", []),
        ("dray up --emulat 1.27", ["dray up has no option --emulat"]),
        ("KUBECONFIG=x dray driver verify --node n --nod m", ["dray driver verify has no option --nod"]),
        ("dray devices -o json | jq --raw-output .", []),
        ("dray nosuch", ["dray has no command nosuch"]),
        ("$(dray token create --print-join-command) --name x", []),
        ("kubectl get pods --nonsense", []),
        ("dray driver run cats.py --node n -- --own-option", []),
    ],
)
def test_unknown_commands_and_options_are_found(command: str, problems: list[str]) -> None:
    assert list(docs_check.command_problems(command)) == problems


def test_broken_links_and_anchors_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_check, "ROOT", tmp_path)
    (tmp_path / "there.md").write_text("# A `Title` with signs: yes\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md#a-title-with-signs-yes) [b](there.md#gone)\n[c](gone.md)\n\n```sh\n[d](not-a-link.md)\n```\n[e](.)\n"
    )
    assert [str(one) for one in docs_check.broken_links(page)] == [
        "page.md:1: broken link: there.md has no heading #gone",
        "page.md:2: broken link: gone.md",
        "page.md:7: link to a folder: .; name its page",
    ]


def test_a_stale_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "PAGES", tmp_path)
    monkeypatch.setattr(reference, "made_pages", lambda: [("a.md", "new\n")])
    monkeypatch.setattr(sys, "argv", ["reference.py", "--check"])
    (tmp_path / "a.md").write_text("old\n")
    assert reference.main() == 1 and "run make docs" in capsys.readouterr().err
    (tmp_path / "a.md").write_text("new\n")
    assert reference.main() == 0
