"""Writes the pages under docs/reference from the code: commands, SDK, configuration, metrics, events, feature gates.

``--check`` writes nothing and fails if a page is not what the code says.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "dray"
PAGES = ROOT / "docs" / "reference"
_MADE = "<!-- Made by `make docs` from the code; changes here are lost. -->\n"
#: Packages whose code runs inside a component, under the name that readers know.
_COMPONENTS = {
    "server": "API server",
    "store": "API server",
    "scheduler": "scheduler",
    "controllers": "controllers",
    "node": "node agent",
    "runtimes": "node agent",
    "driver": "drivers",
    "drivers": "drivers",
    "client": "every component",
    "metrics": "every component",
    "ui": "dashboard and exporter",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a page is stale")
    check = parser.parse_args().check
    pages = dict(made_pages())
    if not check:
        PAGES.mkdir(exist_ok=True)
        for name, text in pages.items():
            (PAGES / name).write_text(text)
        return 0
    stale = [name for name, text in pages.items() if not _is(PAGES / name, text)]
    for name in stale:
        print(f"docs/reference/{name} is not what the code says: run make docs", file=sys.stderr)
    return 1 if stale else 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def made_pages() -> Iterator[tuple[str, str]]:
    yield "commands.md", _page("Commands", commands())
    yield "configuration.md", _page("Configuration", configuration())
    yield "sdk.md", _page("Driver SDK", sdk())
    yield "metrics.md", _page("Metrics", metrics())
    yield "events.md", _page("Events and conditions", events())
    yield "feature-gates.md", _page("Feature gates", feature_gates())
    yield "exit-codes.md", _page("Exit codes", topic("exit-codes"))
    yield "environment.md", _page("Environment variables", topic("environment"))


def _page(title: str, lines: Iterable[str]) -> str:
    return f"{_MADE}\n# {title}\n\n" + "\n".join(lines).rstrip() + "\n"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in row) + " |"


# --- commands and options ---


def commands() -> Iterator[str]:
    from dray.cli.commands import dray

    found = list(_walk(dray, "dray"))
    yield "`dray COMMAND --help` says the same in a terminal, `dray help TOPIC` more about a topic."
    yield ""
    for name, command in found:
        yield f"- [`{name}`](#{_anchor(name)}): {command.get_short_help_str(200)}"
    for name, command in found:
        yield from ("", f"## `{name}`", "", "```text", _usage(name, command), "```", "")
        yield from _help(command)
        rows = list(_options(command))
        if rows:
            yield from _table(("option", "meaning"), rows)


def _walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command, info_name=name)
    if command.invoke_without_command:
        yield name, command
    for child in command.list_commands(context):
        found = command.get_command(context, child)
        if found is not None and not found.hidden:
            yield from _walk(found, f"{name} {child}")


def _anchor(heading: str) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _usage(name: str, command: click.Command) -> str:
    return " ".join([name, *command.collect_usage_pieces(click.Context(command, info_name=name))])


def _help(command: click.Command) -> Iterator[str]:
    """Paragraphs as they are; what is not to be wrapped is preformatted text."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if not paragraph.startswith("\b"):
            yield from (_escaped(paragraph), "")
            continue
        text = paragraph.lstrip("\b").strip("\n")
        title, _, rest = text.partition("\n")
        if title.endswith(":") and rest:
            yield from (_escaped(title), "", "```text", textwrap.dedent(rest), "```", "")
        else:
            yield from (_escaped(text), "")


def _escaped(text: str) -> str:
    return re.sub(r"(?<!`)<", "&lt;", text).replace("*,", "\\*,")


def _options(command: click.Command) -> Iterator[tuple[str, str]]:
    context = click.Context(command)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden and parameter.name != "help":
            record = parameter.get_help_record(context)
            if record is not None:
                yield f"`{record[0]}`", _escaped(record[1])


# --- configuration ---


def configuration() -> Iterator[str]:
    from dray.cli.configfile import camel_case, example, options
    from dray.cli.up import up

    yield (
        "`dray up --config FILE` reads every option of a cluster from a file. It is what one edits here instead of the "
        "manifests in `/etc/kubernetes/manifests`: change the file, then `dray down` and `dray up --config FILE`. Options "
        "on the command line come before those of the file, and paths in the file are relative to the file. `dray config` "
        "prints a file to start from, with every option and its default:"
    )
    yield from ("", "```yaml", example(up).rstrip(), "```", "")
    yield "## Options"
    yield ""
    yield "Lists may be written as lists, and gates and API versions as mappings; texts as on the command line are fine, too."
    yield ""
    yield from _table(
        ("in the file", "on the command line", "meaning"),
        ((f"`{camel_case(o.name or '')}`", f"`{o.opts[-1]}`", _escaped(o.help or "")) for o in options(up)),
    )
    yield ""
    yield (
        "The scheduler's own configuration (`schedulerConfig`, or `dray scheduler --config`) is upstream's "
        "KubeSchedulerConfiguration; see [Scheduling](../scheduling.md)."
    )


# --- the SDK ---


def sdk() -> Iterator[str]:
    yield "Everything that `dray.driver` exports. [Write a driver](../tutorials/write-a-driver.md) shows it in use."
    module = importlib.import_module("dray.driver")
    yield from _members(module, module.__all__)
    classic = importlib.import_module("dray.driver.classic")
    yield from ("", "## Classic drivers: `dray.driver.classic`", "")
    yield "For claims of 1.26 to 1.30, which a driver's controller allocates."
    yield from _members(classic, classic.__all__)


def _members(module: Any, names: Iterable[str]) -> Iterator[str]:
    for name in sorted(names):
        found = getattr(module, name)
        yield from ("", f"### `{module.__name__.removeprefix('dray.')}.{name}`", "")
        if inspect.isclass(found) or inspect.isroutine(found):
            yield from ("```python", _signature(name, found), "```", "")
            yield _summary(found)
        else:
            yield f"`{_short(str(found))}`"
        if inspect.isclass(found):
            rows = list(_attributes(found))
            if rows:
                yield ""
                yield from _table(("member", "meaning"), rows)


def _signature(name: str, found: Any) -> str:
    try:
        text = str(inspect.signature(found))
    except (TypeError, ValueError):
        return f"class {name}"
    kind = "class" if inspect.isclass(found) else "async def" if inspect.iscoroutinefunction(found) else "def"
    return (
        f"{kind} {name}{_short(text)}".removesuffix(" -> None")
        if kind == "class"
        else f"{kind} {name}{_short(text)}"
    )


def _short(annotation: str) -> str:
    """Defaults that are objects of this process, and module paths, tell a reader nothing."""
    text = re.sub(r"<[^<>]*>", "…", annotation)
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"\b(?:dray|collections|typing|pathlib)(?:\.\w+)*\.(\w+)", r"\1", text)
    return text.replace("PosixPath(", "Path(").replace("'", '"')


def _summary(found: Any) -> str:
    doc = inspect.getdoc(found) or ""
    if inspect.isclass(found) and (found.__doc__ is None or found.__doc__.startswith(f"{found.__name__}(")):
        return ""
    return re.sub(r"``([^`]*)``", r"`\1`", doc)


def _attributes(found: type) -> Iterator[tuple[str, str]]:
    for name, member in vars(found).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            prefix = "await " if inspect.iscoroutinefunction(member) else ""
            arguments = [p for p in inspect.signature(member).parameters if p != "self"]
            yield f"`{prefix}{name}({', '.join(arguments)})`", _summary(member).partition("\n\n")[0]
        elif isinstance(member, property):
            yield f"`{name}`", _summary(member).partition("\n\n")[0]


# --- metrics ---


class Metric(NamedTuple):
    name: str
    kind: str
    labels: str
    help: str
    component: str


def metrics() -> Iterator[str]:
    found = sorted(set(_metrics()))
    yield (
        "The API server serves `/metrics` to administrators, with those of the scheduler and the controllers where they run "
        "in the same process (`dray up`). `--metrics-listen HOST:PORT` makes `dray scheduler`, `controllers` and `node` "
        "serve theirs. Names are upstream's wherever upstream measures the same."
    )
    for component in dict.fromkeys(one.component for one in sorted(found, key=lambda m: m.component)):
        yield from ("", f"## {component[0].upper()}{component[1:]}", "")
        rows = [(f"`{m.name}`", m.kind, m.labels, m.help) for m in found if m.component == component]
        yield from _table(("metric", "kind", "labels", "meaning"), rows)


def _metrics() -> Iterator[Metric]:
    for path, tree in _modules():
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr not in ("counter", "gauge", "histogram") or len(call.args) < 2:
                continue
            texts = [text for argument in call.args for text in _texts(argument, tree)]
            name, help = texts[0], texts[1]
            if name and help and re.fullmatch(r"[a-z][a-z0-9_]+", name):
                labels = ", ".join(f"`{t}`" for t in texts[2:] if t)
                yield Metric(name, call.func.attr, labels, help, _component(path))


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in _COMPONENTS:
        for path in sorted((SOURCE / package).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def _component(path: Path) -> str:
    return _COMPONENTS[path.relative_to(SOURCE).parts[0]]


def _texts(node: ast.AST, tree: ast.Module) -> list[str]:
    """A text, or those of a tuple that is spread (``*_LABELS``)."""
    if not isinstance(node, ast.Starred) or not isinstance(node.value, ast.Name):
        return [_text(node)]
    for one in ast.walk(tree):
        target = (
            one.target
            if isinstance(one, ast.AnnAssign)
            else one.targets[0]
            if isinstance(one, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == node.value.id:
            value = one.value  # type: ignore[union-attr]
            return [_text(item) for item in value.elts] if isinstance(value, ast.Tuple) else []
    return []


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


# --- events and conditions ---

#: Conditions and the objects that have them; a component that names one in its code is listed with it.
_CONDITIONS = {
    "Approved": "CertificateSigningRequest",
    "Available": "Deployment",
    "Complete": "Job",
    "ContainersReady": "Pod",
    "Denied": "CertificateSigningRequest",
    "DiskPressure": "Node",
    "DisruptionAllowed": "PodDisruptionBudget",
    "DisruptionTarget": "Pod",
    "Established": "CustomResourceDefinition",
    "EvictionInProgress": "DeviceTaintRule",
    "FailureTarget": "Job",
    "Initialized": "Pod",
    "MemoryPressure": "Node",
    "NamesAccepted": "CustomResourceDefinition",
    "PIDPressure": "Node",
    "PodReadyToStartContainers": "Pod",
    "PodScheduled": "Pod",
    "Progressing": "Deployment",
    "Ready": "Pod, Node, devices in a claim's status",
    "ReplicaFailure": "ReplicaSet, Deployment",
    "SuccessCriteriaMet": "Job",
    "Suspended": "Job",
}


def events() -> Iterator[str]:
    yield "`kubectl get events` and `kubectl describe` show them. Reasons are upstream's where upstream has the same event."
    reported: dict[tuple[str, str, str], set[str]] = {}
    conditions: dict[str, set[str]] = {}
    for path, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for kind, reason in _event(node):
                    reported.setdefault((_component(path), kind, reason), set()).add(_module(path))
            elif _text(node) in _CONDITIONS:
                conditions.setdefault(_text(node), set()).add(_component(path))
    yield from ("", "## Events", "")
    yield from _table(
        ("reason", "type", "from", "module"),
        (
            (f"`{reason}`", kind, component, ", ".join(f"`{m}`" for m in sorted(where)))
            for (component, kind, reason), where in sorted(
                reported.items(), key=lambda one: (one[0][2], one[0])
            )
        ),
    )
    yield from ("", "## Conditions", "")
    yield from _table(
        ("condition", "of", "components that know it"),
        ((f"`{name}`", _CONDITIONS[name], ", ".join(sorted(by))) for name, by in sorted(conditions.items())),
    )
    yield ""
    yield "Devices with binding conditions wait for those that their driver names; see `examples/binding-conditions`."


def _event(call: ast.Call) -> Iterator[tuple[str, str]]:
    """Pairs of type and reason that stand side by side in the arguments of a call."""
    for kind, reason in zip(call.args, call.args[1:], strict=False):
        if _text(kind) in ("Normal", "Warning") and re.fullmatch(r"[A-Z]\w+", _text(reason)):
            yield _text(kind), _text(reason)


def _module(path: Path) -> str:
    return str(path.relative_to(SOURCE).with_suffix("")).replace("/", ".").removesuffix(".__init__")


# --- feature gates ---


def feature_gates() -> Iterator[str]:
    from dray.api.release import EMULATED, EffectiveVersion

    lines = [
        line.split()
        for line in (SOURCE / "api" / "release" / "gates.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    header, rows = lines[0], lines[1:]
    default = EffectiveVersion().gates()
    yield (
        "`--feature-gates A=true,B=false` switches them. Without `--emulate` the gates of Dynamic Resource Allocation are "
        "on with few exceptions; with `--emulate` a release has its own defaults, and up to 1.33 also "
        "`DynamicResourceAllocation`, as such a release is emulated for its sake. "
        f"Releases that can be emulated: {', '.join(map(str, EMULATED))}."
    )
    yield ""
    yield (
        "α alpha, β beta, GA generally available, † deprecated; **bold** is on by default, ! cannot be changed, – not known."
    )
    ours = [
        row for row in rows if row[0].startswith(("DRA", "DynamicResource", "KubeletPodResourcesDynamic"))
    ]
    for title, chosen in (
        ("Dynamic Resource Allocation", ours),
        ("All others", [r for r in rows if r not in ours]),
    ):
        yield from ("", f"## {title}", "")
        here = chosen is ours
        head = ("gate", *(("without `--emulate`",) if here else ()), *reversed(header[1:]))
        shown = (
            (
                f"`{row[0]}`",
                *((("on" if row[0] in default else "off"),) if here else ()),
                *map(_stage, reversed(row[1:])),
            )
            for row in chosen
        )
        yield from _table(head, shown)


def _stage(mark: str) -> str:
    if mark == "-":
        return "–"
    stage = {"a": "α", "b": "β", "g": "GA", "d": "†"}[mark[0].lower()]
    return (f"**{stage}**" if mark[0].isupper() else stage) + ("!" if mark.endswith("!") else "")


# --- topics of dray help ---


def topic(name: str) -> Iterator[str]:
    """The page that ``dray help`` shows, below its title."""
    text = (SOURCE / "cli" / "topics" / f"{name}.md").read_text()
    yield text.partition("\n")[2].strip()


if __name__ == "__main__":
    raise SystemExit(main())
