"""What a report shows of the published experiment: our figures over the seeds, and the published ones beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.simulate.experiment import MARKS, Figures
from dray.simulate.report.intervals import Interval, interval
from dray.simulate.report.page import Cell, Report, Row, Section, Table
from dray.simulate.report.plots import Dot, Dots, Lines, Point, Series

#: Policy and measure → published figures by percent.
Published = Mapping[tuple[str, str], Mapping[int, float]]

_FULL = (90, 100, 110, 130)  # percent, in the table
_CROWDED = 85  # percent: from here on policies differ


def openb_report(
    runs: Mapping[str, Sequence[Figures]], published: Published, *, nodes: str, pods: str
) -> Report:
    """``runs``: policy → figures of its seeds; ``nodes`` and ``pods``: names of the lists."""
    ours = {
        (policy, measure): _over_seeds([getattr(one, measure) for one in seeds])
        for policy, seeds in runs.items()
        for measure in ("allocated_percent", "fragmented_percent")
    }
    first = next(iter(runs.values()))
    compared = any((policy, "allocated_percent") in published for policy in runs)
    seeds = ", ".join(str(one.seed) for one in first)
    return Report(
        title="Device policies on an openb trace",
        text="Pods arrive in random order until they ask for 130 % of the cluster's GPUs; nobody leaves, and what does not "
        "fit is dropped. Each figure is a mean over all arrivals at which pods have asked for that part of the GPUs.",
        facts=[
            ("Nodes", nodes),
            ("Pods", pods),
            ("Pods in a run", f"{sum(one.pods for one in first) / len(first):,.0f}"),
            ("Seeds", seeds),
            ("Intervals", "95 %, over seeds" if len(first) > 1 else "none: one seed"),
        ],
        sections=[
            _allocated(runs, ours, published, compared=compared),
            _fragmented(runs, ours, published),
        ],
    )


def _allocated(
    runs: Mapping[str, Sequence[Figures]],
    ours: Mapping[tuple[str, str], Mapping[int, Interval]],
    published: Published,
    *,
    compared: bool,
) -> Section:
    measure = "allocated_percent"
    text = "How much of all GPUs is in use. The dotted line would be a cluster that places every pod."
    if compared:
        text += " Dashed lines and diamonds are the published figures."
    dots = [
        Dots(
            f"allocated-at-{mark}",
            f"Allocated when pods ask for {mark} %",
            "allocated GPUs (%)",
            [
                (policy, [Dot(policy, number, found[mark], published.get((policy, measure), {}).get(mark))])
                for number, policy in enumerate(runs)
                if mark in (found := ours[policy, measure])
            ],
            bounds=(0, 100),
        )
        for mark in (100, 130)
    ]
    return Section(
        "Allocated",
        text,
        plots=[
            Lines(
                "allocated",
                "Allocated GPUs as requests grow",
                "requested GPUs (% of all)",
                "allocated GPUs (%)",
                _series(runs, ours, published, measure),
                diagonal="everything is placed",
                zero=False,
                bounds=(0, 100),
            ),
            Lines(
                "allocated-when-crowded",
                f"The same from {_CROWDED} % on",
                "requested GPUs (% of all)",
                "allocated GPUs (%)",
                _series(runs, ours, published, measure, begin=_CROWDED),
                diagonal="everything is placed",
                zero=False,
                bounds=(0, 100),
            ),
            *(one for one in dots if one.rows),
        ],
        table=_table(runs, ours, published, measure),
    )


def _fragmented(
    runs: Mapping[str, Sequence[Figures]],
    ours: Mapping[tuple[str, str], Mapping[int, Interval]],
    published: Published,
) -> Section:
    measure = "fragmented_percent"
    return Section(
        "Fragmented",
        "The part of the free GPUs that the typical pods of this workload could not use.",
        plots=[
            Lines(
                "fragmented",
                "Fragmented part of the free GPUs",
                "requested GPUs (% of all)",
                "fragmented (% of what is free)",
                _series(runs, ours, published, measure),
                bounds=(0, 100),
            )
        ],
        table=_table(runs, ours, published, measure),
    )


def _over_seeds(figures: Sequence[Mapping[int, float]]) -> dict[int, Interval]:
    return {
        mark: interval(values) for mark in MARKS if (values := [one[mark] for one in figures if mark in one])
    }


def _series(
    runs: Mapping[str, Sequence[Figures]],
    ours: Mapping[tuple[str, str], Mapping[int, Interval]],
    published: Published,
    measure: str,
    *,
    begin: int = 0,
) -> list[Series]:
    found = []
    for number, policy in enumerate(runs):
        points = [Point(mark, value) for mark, value in ours[policy, measure].items() if mark >= begin]
        found.append(Series(policy, number, points))
    for number, policy in enumerate(runs):
        paper = published.get((policy, measure))
        if paper:
            marks = [mark for mark in sorted(paper) if mark >= begin and mark in ours[policy, measure]]
            points = [Point(mark, Interval(paper[mark], 0.0)) for mark in marks]
            found.append(Series(f"{policy}, published", number, points, dashed=True))
    return found


def _table(
    runs: Mapping[str, Sequence[Figures]],
    ours: Mapping[tuple[str, str], Mapping[int, Interval]],
    published: Published,
    measure: str,
) -> Table:
    marks = [mark for mark in _FULL if all(mark in ours[policy, measure] for policy in runs)]
    highest = {mark: max(ours[policy, measure][mark].mean for policy in runs) for mark in marks}
    emphasizes = measure == "allocated_percent" and len(runs) > 1
    rows = []
    for number, policy in enumerate(runs):
        values = ours[policy, measure]
        cells = [
            Cell(
                f"{values[mark].mean:.2f}",
                f"± {values[mark].margin:.2f}" if values[mark].margin else "",
                best=emphasizes and values[mark].mean == highest[mark],
            )
            for mark in marks
        ]
        rows.append(Row(policy, cells, number))
        paper = published.get((policy, measure))
        if paper:
            rows.append(
                Row(
                    "published (ours − published)",
                    [
                        Cell(f"{paper[mark]:.2f}", f"({values[mark].mean - paper[mark]:+.2f})")
                        if mark in paper
                        else Cell("–")
                        for mark in marks
                    ],
                    published=True,
                )
            )
    return Table(["policy", *(f"at {mark} %" for mark in marks)], rows)
