"""``dray explain``: why is this pod or claim pending, and what would help?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dray.cli.config_flags import namespace_option, resolve_namespace
from dray.cli.exit import EXIT_NEGATIVE, disable_gc, exit_process
from dray.cli.options import files_option, output_option, source_options
from dray.cli.printers import emit, paint
from dray.cli.source import load_snapshot

if TYPE_CHECKING:
    from dray.api.identity import ObjectKey
    from dray.explain import Cluster, Snapshot
    from dray.explain.model.explanation import Explanation
    from dray.explain.model.manifests import Manifest

_POD = ("pod", "pods", "po")
_CLAIM = ("claim", "claims", "resourceclaim", "resourceclaims")
_PROGRESS_FROM = 1000


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in ("pod", "claim") if kind.startswith(incomplete)]


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell's completion: the pods or claims of the namespace; nothing if the cluster cannot be asked."""
    import asyncio

    from dray.cli.config_flags import connect, current_namespace
    from dray.client.resources import PODS, RESOURCE_CLAIMS, Resource

    async def ask() -> list[str]:
        resource: Resource[Any] = RESOURCE_CLAIMS if ctx.params.get("what") in _CLAIM else PODS
        async with asyncio.timeout(3), connect(ctx.params.get("kubeconfig")) as client:
            namespace = ctx.params.get("namespace") or current_namespace(ctx.params.get("kubeconfig"))
            found = await client.list(resource, namespace)
            return [one["metadata"]["name"] for one in found.items]

    try:
        names = asyncio.run(ask())
    except Exception:  # an error must not appear in the middle of the user's command line
        return []
    return [name for name in names if name.startswith(incomplete)]


@click.command()
@click.argument("what", required=False, metavar="[pod|claim]", shell_complete=_kinds)
@click.argument("name", required=False, shell_complete=_names)
@source_options
@output_option
@namespace_option
@files_option("Manifests to explain before they are applied.")
@click.option(
    "--offline", is_flag=True, help="With -f: the manifests are the whole world, no cluster is asked."
)
def explain(
    what: str | None,
    name: str | None,
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    output: str,
    namespace: str,
    files: tuple[Path, ...],
    offline: bool,
) -> None:
    """Say why a pod or a claim is pending, stuck or where it is, and what would help.

    \b
    Examples:
      dray explain pod train
      dray explain claim shared-gpu -n team-a
      dray explain pod/train -o json
      dray explain -f job.yaml                 # before anything is applied
      dray explain pod train --snapshot cluster.json.gz

    \b
    Exit codes: 0 all is well (it runs, it is allocated, it would fit); 3 it is pending, refused or stuck;
    1 there is no such thing or the cluster cannot be read; 2 the command line makes no sense.
    """
    from dray.explain import Cluster

    disable_gc()
    if what and "/" in what and name is None:
        what, _, name = what.partition("/")
    if what and not name and not files and what not in (*_POD, *_CLAIM):
        what, name = "pod", what
    if not files and not (what and name):
        raise click.UsageError("name a pod or a claim, or give manifests with -f")
    elsewhere = offline or snapshot_file is not None
    namespace = resolve_namespace(namespace, kubeconfig, context, offline=elsewhere)
    snapshot, manifests = _snapshot_and_manifests(
        kubeconfig, context, snapshot_file, files, offline, namespace
    )
    cluster = Cluster(snapshot, filters_nodes=True)
    explanations = _explanations(cluster, what, name, namespace, manifests)
    if output == "text":
        from dray.explain.render.text import render_text

        click.echo("\n\n".join(render_text(one, paint=paint) for one in explanations))
    else:
        documents = [one.as_document() for one in explanations]
        emit(documents[0] if name else {"explanations": documents}, output)
    exit_process(0 if all(one.well for one in explanations) else EXIT_NEGATIVE)


def _snapshot_and_manifests(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    files: tuple[Path, ...],
    offline: bool,
    namespace: str,
) -> tuple[Snapshot, list[Manifest]]:
    """The cluster, with the manifests applied to it."""
    from dray.explain import Snapshot

    snapshot = (
        Snapshot() if offline else load_snapshot(kubeconfig, context, snapshot_file, namespace=namespace)
    )
    if not files:
        return snapshot, []
    from dray.explain.model import manifests
    from dray.explain.model.workloads import expand_workload

    found = manifests.read_files(files)
    documents = [expand_workload(one.document, namespace) for one in found]
    return snapshot.applied(d for several in documents for d in several), found


def _explanations(
    cluster: Cluster, what: str | None, name: str | None, namespace: str, manifests: list[Manifest]
) -> list[Explanation]:
    from dray.api.identity import ObjectKey, object_key
    from dray.explain.explainer import explain_claim, explain_pod
    from dray.explain.model.workloads import expand_workload

    with _progress(len(cluster.nodes)) as advance:
        if name:
            key = ObjectKey(namespace, name)
            if what in _CLAIM:
                _require(key, cluster.claims, "claim")
                return [explain_claim(cluster, key, progress=advance)]
            if what not in _POD:
                raise click.UsageError(f"cannot explain {what}: pod and claim are known")
            _require(key, cluster.pods, "pod")
            return [explain_pod(cluster, key, progress=advance)]
        documents = [d for m in manifests for d in expand_workload(m.document, namespace)]
        pods = [object_key(d) for d in documents if d.get("kind") == "Pod"]
        claims = [object_key(d) for d in documents if d.get("kind") == "ResourceClaim"]
        if not pods and not claims:
            raise click.ClickException("there is no pod and no claim in these files")
        if pods:
            return [explain_pod(cluster, key, progress=advance) for key in dict.fromkeys(pods)]
        return [explain_claim(cluster, key, progress=advance) for key in claims]


def _require(key: ObjectKey, known: Mapping[ObjectKey, object], kind: str) -> None:
    if key in known:
        return
    from difflib import get_close_matches

    here = [one.name for one in known if one.namespace == key.namespace]
    close = [name for name in here if name.startswith(key.name)] or get_close_matches(key.name, here, n=3)
    meant = sorted(str(one) for one in known if one.name == key.name) or sorted(close)[:3]
    hint = f"; did you mean {' or '.join(meant)}?" if meant else ""
    raise click.ClickException(f"there is no {kind} {key}{hint}")


@contextmanager
def _progress(nodes: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on the terminal where the answer may take a moment."""
    import sys

    if nodes < _PROGRESS_FROM or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("asking nodes", total=nodes)
        yield lambda number: bar.update(task, advance=number)
