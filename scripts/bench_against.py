"""Measures this tree and another commit in turns and prints every figure of ``make bench`` as a ratio with its spread.

A machine is now fast, now slow; only figures of neighbouring minutes can be compared. Each round therefore runs one
part of the benchmark on both trees, one after the other, and the order changes from round to round. Each tree runs its
own ``scripts/bench.py`` in a virtual environment of its own; figures are matched by their label.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ROOT / ".tools" / "against"
PARTS = ("pure", "api", "node", "cluster", "cluster-5000")

#: `label, unit      1,234.5  6.7 ms`: the figures stand behind two spaces or a colon, at the end of the line
LINE = re.compile(
    r"^\s*(?P<label>[A-Za-z].*?\S)(?::\s|\s{2,})\s*(?P<figures>[\d,.]+(?:\s{2,}[\d,.]+)*)(?P<unit> \S+)?$"
)
#: what `make bench` prints behind a figure to set it in relation to another one
RELATION = re.compile(r"\s{3,}(upstream\b|[\d.]+ ×).*")
#: figures in seconds or megabytes are better when they are smaller, all others are rates
SMALLER_IS_BETTER = re.compile(r"(?<!/)\b(s|ms|MB|seconds)\b|^(explain|devices|time per)\b")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def prepare(commit: str) -> Path:
    """A work tree of the commit with an environment of its own; made once, kept for the next comparison."""
    try:
        full = run("git", "rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}").strip()
    except subprocess.CalledProcessError:
        raise SystemExit(
            f"{commit} is no commit of this repository: give a hash, a tag or a branch"
        ) from None
    tree = OTHERS / full[:12]
    if not (tree / ".venv" / ".ready").exists():
        print(f"setting up {full[:12]} in {tree.relative_to(ROOT)}", flush=True)
        run("git", "worktree", "prune")
        if not (tree / "pyproject.toml").exists():
            run("git", "worktree", "add", "--force", "--detach", tree, full)
        run(sys.executable, "-m", "venv", tree / ".venv")
        python = tree / ".venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip")
        run(python, "-m", "pip", "install", "--quiet", "--editable", ".", "--group", "test", cwd=tree)
        run(python, "-m", "compileall", "-q", "src", cwd=tree)
        (tree / ".venv" / ".ready").touch()
    return tree


def measure(tree: Path, part: str, data: Path) -> dict[str, float]:
    """Every figure that this part of the benchmark prints in that tree, and the processor time of it all."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [tree / ".venv/bin/python", tree / "scripts/bench.py", "--only", part, "--data", data]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tree) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(
            f"{tree.name}: scripts/bench.py --only {part} ended with exit code {process.returncode}"
        )
    return {**figures(text), "processor time, load included, s": usage.ru_utime + usage.ru_stime}


def figures(text: str) -> dict[str, float]:
    """The labelled figures of a benchmark's output; further columns of a table are numbered."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if match := LINE.match(RELATION.sub("", line)):
            label = " ".join(match["label"].split()) + (", ms" if match["unit"] == " ms" else "")
            for position, figure in enumerate(match["figures"].split()):
                found[f"{label} ({position + 1})" if position else label] = float(figure.replace(",", ""))
    return found


def report(part: str, here: dict[str, list[float]], there: dict[str, list[float]]) -> None:
    print(f"\n{part:44} {'this':>12} {'that':>12} {'ratio':>8}   spread", flush=True)
    for label, values in here.items():
        if label in there and len(there[label]) == len(values) and all(there[label]):
            ratios = sorted(new / old for new, old in zip(values, there[label], strict=True))
            middle = statistics.median(ratios)
            worse = middle > 1.05 if SMALLER_IS_BETTER.search(label) else middle < 0.95
            print(
                f"  {label:42} {statistics.median(values):12,.2f} {statistics.median(there[label]):12,.2f} "
                f"{middle:8.2f}   {ratios[0]:.2f}–{ratios[-1]:.2f}{'   worse' if worse else ''}",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared", help="where bench/*.py are")
    parser.add_argument("--rounds", type=int, default=5, help="how often each part is run on each tree")
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts only")
    args = parser.parse_args()
    other = prepare(args.commit)
    run(sys.executable, "-m", "compileall", "-q", "src")  # as the other tree: no start compiles anything
    data = args.data.resolve()
    print(f"this tree against {other.name}, {args.rounds} rounds in turns", flush=True)
    for part in args.only or PARTS:
        seen: dict[Path, dict[str, list[float]]] = {ROOT: defaultdict(list), other: defaultdict(list)}
        for turn in range(args.rounds):
            for tree in (ROOT, other) if turn % 2 else (other, ROOT):
                for label, value in measure(tree, part, data).items():
                    seen[tree][label].append(value)
        report(part, seen[ROOT], seen[other])
    return 0


if __name__ == "__main__":
    sys.exit(main())
