"""``dray convert``: manifests of an old generation of the resource API as those of a later one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from dray.cli.config_flags import context_option, kubeconfig_option
from dray.cli.exit import EXIT_NEGATIVE
from dray.cli.files import InputPath, read_text, read_yaml
from dray.cli.options import files_option

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.convert import ParameterRule


@click.command()
@files_option("Manifests, or folders of them; - is standard input. Give together what belongs together.")
@click.option(
    "--to", "target", default="v1", show_default=True, type=click.Choice(["v1beta1", "v1beta2", "v1"])
)
@click.option(
    "--rules",
    "rules_file",
    type=InputPath(dir_okay=False),
    help="What a driver's parameter objects become.",
)
@click.option(
    "--output",
    "-o",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write each file below this folder. Default: everything to standard output.",
)
@click.option("--cluster", is_flag=True, help="Convert what a running cluster holds.")
@kubeconfig_option
@context_option
@click.pass_context
def convert(
    ctx: click.Context,
    files: tuple[Path, ...],
    target: str,
    rules_file: Path | None,
    folder: Path | None,
    cluster: bool,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Turn manifests of v1alpha1 to v1beta2 into manifests of a later version; comments and order stay.

    Notes on what has no equivalent go to standard error. The exit code is 0 when the result says all that the source
    said, and 3 when something was lost.

    \b
    Examples:
      dray convert -f old.yaml > new.yaml
      dray convert -f manifests/ --to v1beta1 -o converted/
      dray convert -f old.yaml --rules rules.yaml
      dray convert --cluster --kubeconfig old-cluster.conf

    \b
    A rules file says what the parameters of a driver stand for:
      parameters:
      - apiGroup: cats.resource.example.com
        kind: ClaimParameters
        selectors:
        - device.attributes["cats.example.com"].color == {spec.color}
    """
    from dray.convert import convert_text

    if bool(files) == cluster:
        raise click.UsageError("Give either --filename or --cluster.")
    sources = _from_cluster(kubeconfig, context) if cluster else _read(files)
    if folder is not None:
        _check_targets(sources)
    texts = [one.text for one in sources]
    result = convert_text(texts, files=[one.path for one in sources], target=target, rules=_rules(rules_file))
    for note in result.notes:
        click.echo(f"{'lost' if note.lost else 'note'}: {note}", err=True)
    if folder is None:
        click.echo(_joined(result.texts), nl=False)
    else:
        for source, text in zip(sources, result.texts, strict=True):
            target_file = folder / source.target
            target_file.parent.mkdir(parents=True, exist_ok=True)
            target_file.write_text(text)
    if not result.complete:
        ctx.exit(EXIT_NEGATIVE)


class _Source(NamedTuple):
    path: str  # as the user named it
    target: Path  # below the folder of --output
    text: str


def _read(files: tuple[Path, ...]) -> list[_Source]:
    found: list[_Source] = []
    for given in files:
        if given.is_dir():
            below = sorted(p for p in given.rglob("*") if p.suffix in (".yaml", ".yml", ".json"))
            found += [_Source(str(path), path.relative_to(given), read_text(path)) for path in below]
        elif str(given) == "-":
            found.append(_Source("standard input", Path("stdin.yaml"), sys.stdin.read()))
        else:
            found.append(_Source(str(given), Path(given.name), read_text(given)))
    return found


def _check_targets(sources: list[_Source]) -> None:
    """Nothing is written over what was written just before."""
    taken: dict[Path, str] = {}
    for one in sources:
        if (other := taken.setdefault(one.target, one.path)) != one.path:
            raise click.ClickException(
                f"{other} and {one.path} would both be written as {one.target}: give the folder that has both"
            )


def _joined(texts: tuple[str, ...]) -> str:
    """Files one after another, as one."""
    whole = ""
    for text in texts:
        if text.strip():
            whole += ("" if not whole or text.startswith("---") else "---\n") + text
    return whole


def _rules(path: Path | None) -> list[ParameterRule]:
    if path is None:
        return []
    from dray.convert import RuleError, read_rules

    try:
        return read_rules(read_yaml(path))
    except RuleError as problem:
        raise click.ClickException(f"{path}: {problem}") from None


def _from_cluster(kubeconfig: Path | None, context: str) -> list[_Source]:
    import asyncio

    import yaml

    from dray.cli.config_flags import connect
    from dray.convert.collector import collect_manifests

    async def read() -> list[Object]:
        async with connect(kubeconfig, context=context) as client:
            return await collect_manifests(client)

    documents = asyncio.run(read())
    text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
    return [_Source("cluster.yaml", Path("cluster.yaml"), text)]
