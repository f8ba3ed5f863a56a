"""Checks the pages without building the site: links and their anchors, commands and options of dray in code, and whether
the generated pages are what the code says. Quick enough for every `make check`."""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click

sys.path.insert(0, str(Path(__file__).parent))
import reference

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)|!\[[^\]]*\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^( *)(```+)(\w*)[^\n]*\n(.*?)^\1\2$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`+([^`\n]+)`+")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
#: What ends a command in a shell.
_ENDS = {"|", "||", "&", "&&", ";", ">", ">>", "2>&1", "<", "#", "…", "..."}


class Problem(NamedTuple):
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text}"


def main() -> int:
    problems = [p for path in pages() for p in (*broken_links(path), *unknown_options(path))]
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.argv = [sys.argv[0], "--check"]
    return reference.main() or (1 if problems else 0)


def pages() -> list[Path]:
    folders = (ROOT / "docs", ROOT / "examples", ROOT / "charts", ROOT / "deploy")
    return sorted([*ROOT.glob("*.md"), *(p for folder in folders for p in folder.rglob("*.md"))])


# --- links ---


def broken_links(path: Path) -> Iterator[Problem]:
    text = path.read_text()
    prose = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for link in _LINK.finditer(prose):
        target = link[1] or link[2]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        line = prose.count("\n", 0, link.start()) + 1
        if not there.exists():
            yield Problem(path, line, f"broken link: {target}")
        elif there.is_dir():
            yield Problem(path, line, f"link to a folder: {target}; name its page")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            yield Problem(path, line, f"broken link: {name or path.name} has no heading #{anchor}")


@cache
def anchors(path: Path) -> frozenset[str]:
    """As GitHub and the site make them of headings."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", path.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number, plain = 1, anchor
        while anchor in found:
            anchor, number = f"{plain}-{number}", number + 1
        found.add(anchor)
    return frozenset(found)


# --- commands and options ---


def unknown_options(path: Path) -> Iterator[Problem]:
    text = path.read_text()
    for block in _FENCE.finditer(text):
        if block[3] in ("console", "sh", "bash", ""):
            first = text.count("\n", 0, block.start()) + 2
            for line, command in _shell_lines(textwrap.dedent(block[4])):
                if not block[3] and not command.startswith("dray "):
                    continue  # a block of no language may hold anything
                yield from (Problem(path, first + line, p) for p in command_problems(command))
    prose = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for code in _CODE.finditer(prose):
        if code[1].startswith("dray "):
            line = prose.count("\n", 0, code.start()) + 1
            yield from (Problem(path, line, p) for p in command_problems(code[1]))


def _shell_lines(block: str) -> Iterator[tuple[int, str]]:
    """Commands with the line that they begin in; in a console block only what is typed."""
    console, joined, start = block.startswith("$ ") or "\n$ " in block, "", 0
    for number, line in enumerate(block.splitlines()):
        if not joined:
            if console and not line.startswith("$ "):
                continue
            start = number
        joined += line.removeprefix("$ ")
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        yield start, joined
        joined = ""


def command_problems(command: str) -> Iterator[str]:
    """What is wrong with the commands of dray in a line of shell."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return  # half a command, as text has it
    current: list[str] | None = None
    nested = False  # inside $(…)
    for word in [*words, ";"]:
        ends = nested and word.endswith(")")
        if word in _ENDS or word[:1] in tuple("<>&|;") or word.startswith("2>"):
            ends = True
        elif current is not None:
            current.append(word.rstrip(")") if nested else word.rstrip(";"))
        elif word.lstrip("$(").rpartition("/")[2] in ("dray", "kubectl-dra"):
            current, nested = [], word.startswith("$(")
        if ends and current is not None:
            yield from _problems(current)
            current, nested = None, False


def _problems(words: list[str]) -> Iterator[str]:
    from dray.cli.commands import dray

    command: click.Command = dray
    context, said = click.Context(command), "dray"
    for position, word in enumerate(words):
        if word == "--":
            return
        if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            option = word.partition("=")[0]
            if option not in _known(command) and option not in ("-h", "--help", "--version"):
                yield f"{said} has no option {option}"
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            found = command.get_command(context, word)
            if found is None:
                if position == 0 or not command.invoke_without_command:
                    yield f"{said} has no command {word}"
                return
            command, context, said = found, click.Context(found), f"{said} {word}"


@cache
def _known(command: click.Command) -> frozenset[str]:
    return frozenset(o for p in command.params for o in (*p.opts, *p.secondary_opts))


if __name__ == "__main__":
    raise SystemExit(main())
