"""``dray allocate``: which node and devices would these get? Also answers allocation problems from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dray.cli.config_flags import namespace_option, resolve_namespace
from dray.cli.exit import EXIT_NEGATIVE, disable_gc, exit_process
from dray.cli.options import files_option, output_option, source_options
from dray.cli.policy_option import POLICY_NAMES, PolicyName
from dray.cli.printers import columns, emit, paint
from dray.cli.source import load_snapshot

if TYPE_CHECKING:
    from dray.api.identity import ObjectKey
    from dray.api.types.core import Pod
    from dray.api.types.meta import ObjectMeta
    from dray.explain import Cluster
    from dray.explain.nodes.whatif import PodPlacement, WhatIf


_ROWS = 40


@click.command()
@source_options
@output_option
@files_option("Pods, workloads, claims, and anything else that is to be there.")
@namespace_option
@click.option(
    "--count", type=click.IntRange(min=1), default=1, show_default=True, help="How many of each pod."
)
@click.option(
    "--policy",
    type=PolicyName(),
    default="default",
    show_default=True,
    metavar="NAME",
    help=f"Which of several fitting nodes and devices to take: {POLICY_NAMES}, or one of another package.",
)
@click.option("--offline", is_flag=True, help="The manifests are the whole world, no cluster is asked.")
@click.option(
    "--problems",
    type=click.Path(path_type=Path),
    help="Answer these cases instead, one JSON document a line (may be .gz), one JSON line each.",
)
def allocate(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    output: str,
    files: tuple[Path, ...],
    namespace: str,
    count: int,
    policy: str,
    offline: bool,
    problems: Path | None,
) -> None:
    """Say which node and devices pods would get, without creating anything.

    \b
    Examples:
      dray allocate -f job.yaml
      dray allocate -f job.yaml --count 100 --policy pack      # how many still fit?
      dray allocate -f job.yaml --snapshot cluster.json.gz
      dray allocate --problems cases.jsonl.gz

    \b
    Exit codes: 0 everything fits; 3 something does not; 1 the cluster or the files cannot be read.
    """
    if problems is not None:
        from dray.allocation.problems import solve
        from dray.cli.problems import answer_all

        answer_all(problems, solve)
        return
    if not files:
        raise click.UsageError("give manifests with -f, or cases with --problems")
    disable_gc()
    from dray.explain import Cluster, Snapshot
    from dray.explain.model import manifests
    from dray.explain.model.workloads import expand_workload
    from dray.explain.nodes.whatif import WhatIf

    elsewhere = offline or snapshot_file is not None
    namespace = resolve_namespace(namespace, kubeconfig, context, offline=elsewhere)
    snapshot = (
        Snapshot() if offline else load_snapshot(kubeconfig, context, snapshot_file, namespace=namespace)
    )
    documents = [d for m in manifests.read_files(files) for d in expand_workload(m.document, namespace)]
    known = snapshot.with_objects(d for d in documents if d.get("kind") != "Pod")
    cluster = Cluster(known, filters_nodes=True)
    whatif = WhatIf(cluster, policy=policy)
    results = _place(whatif, documents, count)
    if output == "text":
        _print(whatif, results, count)
    else:
        emit({"policy": policy, "pods": [placed.as_document() for _, _, placed in results]}, output)
    exit_process(EXIT_NEGATIVE if any(placed.problem for _, _, placed in results) else 0)


def _place(whatif: WhatIf, documents: list[Any], count: int) -> list[tuple[ObjectKey, Pod, PodPlacement]]:
    from dray.api.identity import ObjectKey, object_key
    from dray.explain.nodes.whatif import claim_as_pod, place_copies

    pods = [d for d in documents if d.get("kind") == "Pod"]
    if not pods:
        pods = [claim_as_pod(d) for d in documents if d.get("kind") == "ResourceClaim"]
    if not pods:
        raise click.ClickException("there is no pod and no claim in these files")
    gangs: dict[ObjectKey, list[Pod]] = {}
    for pod in pods:
        name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        key = ObjectKey(object_key(pod).namespace, name or "")
        if key in whatif.cluster.groups:
            gangs.setdefault(key, []).append(pod)
    together = {id(pod) for members in gangs.values() for pod in members}
    results = [
        (object_key(pod), pod, placed)
        for pod in pods
        if id(pod) not in together
        for placed in place_copies(whatif, object_key(pod), pod, count)
    ]
    for key, members in gangs.items():
        from dray.explain.gangs import place_gang

        placements = place_gang(whatif.explained(), whatif.cluster.groups[key], members)
        results += [(object_key(pod), pod, placements[object_key(pod).name]) for pod in members]
    return results


def _print(whatif: WhatIf, results: list[tuple[ObjectKey, Pod, PodPlacement]], count: int) -> None:
    click.echo("\n".join(columns(_by_node(results) if len(results) > _ROWS else _one_by_one(results))))
    failed = [(key, pod, placed) for key, pod, placed in results if placed.problem]
    fitting = len(results) - len(failed)
    # Of each pod that does not fit the first copy is tried, and no more.
    wanted = count * len({key for key, _, _ in results})
    click.echo(f"{fitting} of {wanted} fit" if failed else f"all {fitting} fit" if fitting > 1 else "it fits")
    alone = [one for one in failed if "schedulingGroup" not in one[1]["spec"]]
    if alone:  # the rows of a gang say what it lacks
        click.echo("\n" + _why(whatif.explained(), *alone[-1]))


def _one_by_one(results: list[tuple[ObjectKey, Pod, PodPlacement]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("POD", "NODE", "DEVICES")]
    for _, _, placed in results:
        given = [f"{one.request or one.claim}={one.device}" for one in placed.devices]
        given += [f"{claim}=(its driver decides)" for claim in placed.undecided]
        devices = ", ".join(given)
        rows.append((placed.pod, placed.node or "-", placed.problem or devices or "-"))
    return rows


def _by_node(results: list[tuple[ObjectKey, Pod, PodPlacement]]) -> list[tuple[str, ...]]:
    """Too many to be read one by one: how many go where."""
    from collections import Counter

    pods = Counter(placed.node for _, _, placed in results if placed.node)
    devices = Counter(placed.node for _, _, placed in results for _ in placed.devices)
    return [("NODE", "PODS", "DEVICES"), *((node, str(n), str(devices[node])) for node, n in pods.items())]


def _why(cluster: Cluster, key: ObjectKey, pod: Pod, placed: PodPlacement) -> str:
    """Why the last pod does not fit, in the words of ``dray explain``."""
    from dray.api.identity import ObjectKey as PodKey
    from dray.explain.explainer import explain_pod
    from dray.explain.render.text import render_text

    named = PodKey(key.namespace, placed.pod.rpartition("/")[2])
    metadata: ObjectMeta = {**pod["metadata"], "name": named.name}
    failing: Pod = {"kind": "Pod", **pod, "metadata": metadata}
    return render_text(
        explain_pod(cluster.changed(cluster.snapshot.with_objects([failing])), named), paint=paint
    )
