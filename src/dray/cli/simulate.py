"""``dray simulate``: the scheduler's own decisions over traces, in virtual time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from dray.cli.capacity import capacity
from dray.cli.exit import disable_gc, exit_process
from dray.cli.files import InputPath, read_yaml
from dray.cli.options import source_options, table_option
from dray.cli.policy_option import POLICY_NAMES, PolicyName
from dray.cli.printers import columns
from dray.cli.scale_up import scale_up
from dray.cli.source import load_snapshot

if TYPE_CHECKING:
    from dray.simulate.experiment import Summary
    from dray.simulate.progress import Counters
    from dray.simulate.report.page import Report
    from dray.simulate.runs import Task
    from dray.simulate.summary import ResultSummary

T = TypeVar("T")

_SHOWN = (50, 70, 90, 100, 110, 130)  # percent


class Seeds(click.ParamType[tuple[int, ...]]):
    """Seeds: ``7``, ``42-51``, or several of these with commas."""

    name = "seeds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        found: list[int] = []
        for part in str(value).split(","):
            first, dash, last = part.partition("-")
            try:
                found += range(int(first), int(last if dash else first) + 1)
            except ValueError:
                self.fail(f"{value!r} is not a list of seeds such as 7, 42-51 or 1,3,5", param, ctx)
        if not found:
            self.fail(f"{value!r} names no seed", param, ctx)
        return tuple(found)


policies_option = click.option(
    "--policy",
    "policies",
    type=PolicyName(),
    multiple=True,
    default=("default",),
    show_default=True,
    metavar="NAME",
    help=f"A device policy, as often as wanted: {POLICY_NAMES}, or one of another package.",
)
processes_option = click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=None,
    help="How many runs at the same time. Default: one for each core.",
)
executor_option = click.option(
    "--executor",
    metavar="dask://HOST:PORT",
    help="Run on this Dask cluster; its workers have dray and see the files under the same names.",
)
resume_option = click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the result of each run in this directory; called again, go on where it was interrupted.",
)


class Where(NamedTuple):
    """Where runs are made, and where their results are kept."""

    processes: int | None
    executor: str | None
    resume: Path | None


text_or_json = table_option("A table, or JSON lines.")


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--report`` and ``--figures``: the results as plots."""
    for option in (
        click.option(
            "--figures",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Write every plot into this directory.",
        ),
        click.option(
            "--figure-format",
            "formats",
            type=click.Choice(["svg", "png"]),
            multiple=True,
            default=("svg",),
            show_default=True,
            help="Of the files of --figures; PNG needs the extra dray[figures].",
        ),
        click.option(
            "--report",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE.html",
            help="Write plots and tables into one HTML file that needs nothing else.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def simulate() -> None:
    """Say what would happen: the scheduler's decisions over traces, without a cluster and faster than time."""


@simulate.command()
@click.option("--nodes", required=True, type=InputPath(dir_okay=False), help="List of nodes, CSV or CSV.gz.")
@click.option("--pods", required=True, type=InputPath(dir_okay=False), help="List of pods, CSV or CSV.gz.")
@policies_option
@click.option("--seeds", type=Seeds(), default="42-51", show_default=True, help="Such as 42, 42-51 or 1,3,5.")
@processes_option
@executor_option
@resume_option
@click.option(
    "--expected",
    type=InputPath(dir_okay=False),
    help="Published figures (CSV) to be shown beside, for the workload that the name of --pods ends with.",
)
@report_options
@text_or_json
def openb(
    nodes: Path,
    pods: Path,
    policies: tuple[str, ...],
    seeds: tuple[int, ...],
    processes: int | None,
    executor: str | None,
    resume: Path | None,
    expected: Path | None,
    report: Path | None,
    figures: Path | None,
    formats: tuple[str, ...],
    output: str,
) -> None:
    """Run the published experiment on an openb trace: pods arrive until they ask for 130 % of the GPUs.

    \b
    Examples:
      dray simulate openb --nodes nodes.csv.gz --pods pods.csv.gz --policy fgd --policy bestfit
      dray simulate openb --nodes nodes.csv.gz --pods pods.csv.gz --policy fgd --seeds 42-51 -o json
      dray simulate openb --nodes nodes.csv.gz --pods pods.csv.gz --expected expected.csv --report fgd.html
    """
    disable_gc()
    from dray.simulate.experiment import Experiment, Figures, Summary

    where = Where(processes, executor, resume)
    _check_targets(report, figures, formats)
    published = _published(expected, pods)
    tables = []
    runs_of: dict[str, list[Figures]] = {}
    for policy in dict.fromkeys(policies):
        began = time.perf_counter()
        runs = _run([Experiment(nodes, pods, policy, seed) for seed in seeds], where, policy, Figures)
        runs_of[policy] = runs
        summary = Summary.of(runs)
        seconds = time.perf_counter() - began
        if output == "json":
            _print_line(summary, seconds)
        tables.append((summary, seconds))
    if output == "text":
        click.echo("\n".join(_table([summary for summary, _ in tables], published)))
    if report is not None or figures is not None:
        from dray.simulate.report.openb import openb_report

        _write_report(
            openb_report(runs_of, published, nodes=nodes.name, pods=pods.name), report, figures, formats
        )
    exit_process()


@simulate.command()
@source_options
@click.option(
    "--cluster",
    "groups",
    type=InputPath(dir_okay=False),
    help="Node groups (YAML) or a list of nodes (CSV) instead of a cluster.",
)
@click.option(
    "-f",
    "--workload",
    "files",
    type=InputPath(dir_okay=False),
    multiple=True,
    required=True,
    help="A trace (CSV, Parquet), a generator (YAML), manifests with arrival and duration, or a recording (JSON lines).",
)
@click.option(
    "--events",
    "events_file",
    type=InputPath(dir_okay=False),
    help="What happens to the cluster meanwhile (YAML): nodes come and go, devices are tainted, slices and classes change.",
)
@policies_option
@click.option("--seeds", type=Seeds(), default="0", show_default=True, help="Such as 42, 42-51 or 1,3,5.")
@click.option(
    "--device-preemption", is_flag=True, help="Let pods of higher priority take devices from others."
)
@click.option("--until", type=click.FloatRange(min=0), metavar="SECONDS", help="End at this time.")
@processes_option
@executor_option
@resume_option
@click.option(
    "--typical-pods",
    type=InputPath(dir_okay=False),
    help="What policies such as fgd know of the workload (YAML); otherwise they count the pods that are there.",
)
@click.option(
    "--pods-to",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what became of each pod (.csv, .csv.gz, .parquet).",
)
@click.option(
    "--samples-to",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the time series (.csv, .csv.gz, .parquet).",
)
@click.option(
    "--use-to",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write how much of each node, model and class was in use over time (.csv, .csv.gz, .parquet).",
)
@report_options
@text_or_json
def run(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    groups: Path | None,
    files: tuple[Path, ...],
    events_file: Path | None,
    policies: tuple[str, ...],
    seeds: tuple[int, ...],
    device_preemption: bool,
    until: float | None,
    processes: int | None,
    executor: str | None,
    resume: Path | None,
    typical_pods: Path | None,
    pods_to: Path | None,
    samples_to: Path | None,
    use_to: Path | None,
    report: Path | None,
    figures: Path | None,
    formats: tuple[str, ...],
    output: str,
) -> None:
    """Run a workload on a cluster: a live one, a snapshot of one, or node groups from a file.

    \b
    Examples:
      dray simulate run --cluster groups.yaml -f trace.csv --policy default --policy fgd
      dray simulate run --snapshot cluster.json.gz -f jobs.yaml --pods-to pods.parquet
      dray simulate run --cluster groups.yaml -f generator.yaml --seeds 1-10 -o json
      dray simulate run --cluster nodes.csv -f trace.csv --events drain.yaml
      dray simulate run -f monday.jsonl.gz --policy default --policy pack     # recorded by dray snapshot --follow
    """
    from dray.placement.policies.workload import parse_typical
    from dray.simulate.model import Options, Result, published_slices
    from dray.simulate.runs import Simulation
    from dray.simulate.sources.cluster_events import WithClusterEvents
    from dray.simulate.sources.files import read_cluster, read_events, read_workload
    from dray.simulate.sources.recording import Recording
    from dray.simulate.sources.snapshot import SnapshotSource
    from dray.simulate.summary import summarize
    from dray.simulate.tables import check_name, write_pods, write_samples, write_use

    for target in filter(None, (pods_to, samples_to, use_to)):
        check_name(target)
    _check_targets(report, figures, formats)
    workload = read_workload(files)
    if groups is not None:
        cluster = read_cluster(groups)
    elif isinstance(workload, Recording) and snapshot_file is None:
        cluster = workload.cluster()
    else:
        cluster = SnapshotSource(load_snapshot(kubeconfig, context, snapshot_file)).cluster()
    if not cluster.nodes:
        raise click.ClickException("the cluster has no nodes: name another one with --cluster or --snapshot")
    recorded = isinstance(workload, Recording)
    slices = [*cluster.slices, *(published_slices(workload.events(0)) if recorded else ())]
    if events_file is not None:
        cluster_events = read_events(events_file)
        slices += published_slices(cluster_events)
        workload = WithClusterEvents(workload, cluster_events)
    typical = parse_typical(read_yaml(typical_pods), str(typical_pods)) if typical_pods is not None else ()
    tasks = [
        Simulation(
            cluster,
            workload,
            Options(
                policy=policy,
                seed=seed,
                device_preemption=device_preemption,
                until=until,
                typical_shapes=typical,
                # What controllers evicted, and the pods that they made instead, is part of the recording.
                recreates_evicted=not recorded,
                evicts_tainted=not recorded,
            ),
        )
        for policy in dict.fromkeys(policies)
        for seed in seeds
    ]
    where = Where(processes, executor, resume)
    results = _run(tasks, where, "simulating", Result)
    if pods_to is not None:
        write_pods(pods_to, results)
    if samples_to is not None:
        write_samples(samples_to, results)
    if use_to is not None:
        write_use(use_to, results, slices)
    if report is not None or figures is not None:
        from dray.simulate.report.runs import runs_report

        named = groups or snapshot_file or (files[0] if recorded else None)
        page = runs_report(
            results,
            cluster=cluster,
            cluster_name=named.name if named is not None else "the live cluster",
            workload=", ".join(path.name for path in files),
        )
        _write_report(page, report, figures, formats)
    summaries = [summarize(one) for one in results]
    if output == "json":
        import msgspec

        for one in summaries:
            click.echo(msgspec.json.encode(one))
    else:
        click.echo("\n".join(_summary_table(summaries)))
    exit_process()


simulate.add_command(capacity)
simulate.add_command(scale_up)


def _check_targets(report: Path | None, figures: Path | None, formats: tuple[str, ...]) -> None:
    """Asked before a long run, not after it."""
    if report is not None and report.suffix not in (".html", ".htm"):
        raise click.BadParameter(
            f"{report}: a report is an HTML file, so its name ends in .html", param_hint="--report"
        )
    for target in filter(None, (report, figures)):
        if not target.absolute().parent.is_dir():
            raise click.BadParameter(f"{target}: there is no directory {target.absolute().parent}")
    if figures is not None and "png" in formats:
        from dray.simulate.report.page import png_renderer

        png_renderer()


def _write_report(found: Report, report: Path | None, figures: Path | None, formats: tuple[str, ...]) -> None:
    from dray.simulate.report.page import write_figures, write_report

    if report is not None:
        write_report(report, found)
        click.echo(f"{report}: {sum(1 for _ in found.plots)} plots", err=True)
    if figures is not None:
        write_figures(figures, found, formats=formats)


def _summary_table(summaries: Sequence[ResultSummary]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("POLICY", "SEED", "PODS", "SCHEDULED", "ENDED", "PENDING", "ALLOCATED", "WAIT P50", "WAIT P95",
         "SLOWDOWN P95", "PREEMPTIONS")
    ]  # fmt: skip
    for one in summaries:
        waiting, slowdown = one.waiting, one.slowdown
        rows.append(
            (
                one.policy, str(one.seed), str(one.pods), str(one.scheduled), str(one.ended), str(one.pending),
                f"{one.allocated_percent:.1f}%", f"{waiting.p50:.0f}s" if waiting else "-",
                f"{waiting.p95:.0f}s" if waiting else "-", f"{slowdown.p95:.2f}" if slowdown else "-",
                str(one.preemptions),
            )
        )  # fmt: skip
    yield from columns(rows)
    yield f"Virtual time: {max(one.seconds for one in summaries):.0f} s. ALLOCATED is the mean over time of all devices."


def _run(
    tasks: Sequence[Task[T]],
    where: Where,
    what: str,
    type_: type[T],
) -> list[T]:
    from dray.simulate.checkpoint import Checkpoint
    from dray.simulate.executors import open_executor
    from dray.simulate.runs import run_all

    checkpoint = Checkpoint(where.resume, type_) if where.resume is not None else None
    number = min(where.processes or len(os.sched_getaffinity(0)), len(tasks))
    with (
        _progress(what, len(tasks)) as watched,
        open_executor(where.executor, number, counters=watched.counters) as executor,
    ):
        return run_all(
            tasks, executor=executor, done=watched.done, checkpoint=checkpoint, counters=watched.counters
        )


class _Watched(NamedTuple):
    """What a bar is told: runs that have ended, and pods that have arrived in those that have not."""

    done: Callable[[int], None]
    counters: Counters | None


@contextmanager
def _progress(what: str, runs: int) -> Iterator[_Watched]:
    """A bar with rate and time left, where somebody watches."""
    if not sys.stderr.isatty():
        yield _Watched(lambda number: None, None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from dray.simulate.progress import Counters, Watcher

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("pods, {task.fields[rate]}, {task.fields[runs]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
        transient=True,
    )
    counters = Counters.make()
    with bar:
        task = bar.add_task(what, total=None, rate="", runs="")
        with Watcher(counters, runs, lambda shown: bar.update(task, **shown)) as watcher:
            yield _Watched(watcher.done, counters)


def _print_line(summary: Summary, seconds: float) -> None:
    import msgspec

    click.echo(
        msgspec.json.encode(
            {
                "policy": summary.policy,
                "seeds": list(summary.seeds),
                "allocated_percent": _rounded(summary.allocated_percent),
                "fragmented_percent": _rounded(summary.fragmented_percent),
                "pods": round(summary.pods),
                "seconds": round(seconds, 3),
            }
        )
    )


def _rounded(values: Any) -> dict[str, float]:
    return {str(mark): round(value, 4) for mark, value in values.items()}


def _published(path: Path | None, pods: Path) -> dict[tuple[str, str], dict[int, float]]:
    """Policy and measure → published figures by percent."""
    if path is None:
        return {}
    from dray.simulate.published import read_published

    return read_published(path, pods)


def _table(summaries: Sequence[Summary], published: dict[tuple[str, str], dict[int, float]]) -> Iterator[str]:
    for title, measure in (
        ("Allocated GPUs (%) when pods have asked for this part of the GPUs (%)", "allocated_percent"),
        ("Fragmented part of the free GPUs (%)", "fragmented_percent"),
    ):
        rows: list[tuple[str, ...]] = [("POLICY", *(str(mark) for mark in _SHOWN))]
        for one in summaries:
            values = getattr(one, measure)
            rows.append((one.policy, *(f"{values[m]:.2f}" if m in values else "-" for m in _SHOWN)))
            paper = published.get((one.policy, measure))
            if paper:
                rows.append(("  published", *(f"{paper[m]:.2f}" if m in paper else "-" for m in _SHOWN)))
        yield title
        yield from columns(rows)
        yield ""
    seeds = summaries[0].seeds
    yield f"Means over {len(seeds)} seed{'s' if len(seeds) > 1 else ''}, {summaries[0].pods:.0f} pods each."
