"""``dray check``: would the server accept these manifests, and what is likely to be a mistake in them?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dray.cli.exit import EXIT_NEGATIVE, disable_gc, exit_process
from dray.cli.files import InputPath
from dray.cli.options import files_option
from dray.cli.printers import emit, paint

if TYPE_CHECKING:
    from dray.explain import Snapshot
    from dray.explain.lint.validation import Finding
    from dray.explain.model.manifests import Manifest, Unreadable

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command()
@click.argument("paths", nargs=-1, type=InputPath(allow_dash=True))
@files_option("A file or a folder of manifests; may be given several times.")
@click.option(
    "--snapshot",
    "snapshot_file",
    type=InputPath(dir_okay=False),
    help="Known devices, classes and claims (dray snapshot), for the rules that need them.",
)
@click.option("--emulate", default="", metavar="RELEASE", help="Check as this Kubernetes release does.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "sarif"]),
    default="text",
    show_default=True,
    help="How to show what was found.",
)
def check(
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    snapshot_file: Path | None,
    emulate: str,
    strict: bool,
    output: str,
) -> None:
    """Check manifests without a cluster: shape, validation and CEL as the server does it, and some advice.

    \b
    Examples:
      dray check -f deploy/
      dray check claim.yaml --snapshot cluster.json.gz
      dray check -f deploy/ -o sarif > results.sarif

    \b
    Exit codes: 0 nothing wrong (there may be warnings); 3 errors, or warnings with --strict;
    1 a file or the snapshot cannot be read.
    """
    disable_gc()
    targets = (*paths, *files)
    if not targets:
        raise click.UsageError("name files or folders of manifests")
    from dray.explain import Snapshot
    from dray.explain.model import manifests, snapshot

    broken: list[manifests.Unreadable] = []
    found = manifests.read_files(targets, unreadable=broken.append, keep_malformed=True)
    known = snapshot.load(snapshot_file) if snapshot_file is not None else Snapshot()
    findings = _findings(found, known, emulate, broken, complete=snapshot_file is not None)
    _show(findings, len(found), output)
    bad = {"error", "warning"} if strict else {"error"}
    exit_process(EXIT_NEGATIVE if any(one.level.value in bad for one in findings) else 0)


def _findings(
    found: list[Manifest], known: Snapshot, emulate: str, broken: list[Unreadable], *, complete: bool
) -> list[Finding]:
    from dray.api.quirks import APIQuirks
    from dray.api.release import EffectiveVersion, SettingError
    from dray.explain import Cluster
    from dray.explain.lint.rules import LintContext, lint
    from dray.explain.lint.validation import Finding, Level
    from dray.explain.lint.validation import check as checked
    from dray.explain.model import manifests
    from dray.explain.model.snapshot import SnapshotError
    from dray.explain.model.workloads import expand_workload
    from dray.server.registry.cel import compile_expression

    try:
        release = EffectiveVersion.parse(emulate)
    except SettingError as problem:
        raise click.UsageError(str(problem)) from None
    whole: list[Any] = []
    sound: list[Manifest] = []
    for one in found:
        if not one.problems and not one.malformed:
            try:
                whole += expand_workload(one.document, "default")
                sound.append(one)
            except SnapshotError as problem:
                broken.append(manifests.Unreadable(one.file, one.line, str(problem)))
    cluster = Cluster(known.with_objects(whole))
    labels = None
    if cluster.namespaces:
        labels = {
            name: (one.get("metadata") or {}).get("labels") or {} for name, one in cluster.namespaces.items()
        }
    findings = checked(
        found,
        gates=release.gates(),
        quirks=APIQuirks.of(release),
        compiler=compile_expression,
        namespace_labels=labels,
        served=release.serving({"api/all": True}) if emulate else None,
        release=release if emulate else None,
    )
    findings += lint(LintContext(sound, cluster, complete))
    findings += [Finding("schema", Level.ERROR, one.problem, one.file, one.line) for one in broken]
    return sorted(findings, key=lambda one: (one.file, one.line))


def _show(findings: list[Finding], objects: int, output: str) -> None:
    if output == "sarif":
        import dray
        from dray.explain.render.sarif import sarif

        emit(sarif(findings, version=dray.__version__), "json")
        return
    if output != "text":
        emit({"findings": [one.as_document() for one in findings]}, output)
        return
    for one in findings:
        level = paint(one.level.value, _COLOURS[one.level.value])
        text = f"{one.subject}: {one.message}" if one.subject else one.message
        click.echo(f"{one.file}:{one.line}: {level}: {text} [{one.rule}]")
    counts = {level: sum(one.level.value == level for one in findings) for level in _COLOURS}
    summary = ", ".join(_several(count, level) for level, count in counts.items() if count)
    click.echo(f"{_several(objects, 'object')}: {summary or 'nothing to say'}")


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
