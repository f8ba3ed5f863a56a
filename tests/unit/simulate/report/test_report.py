"""Reports: every policy is drawn in every plot, intervals are right, and names from elsewhere stay text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dray.simulate.experiment import MARKS, Figures
from dray.simulate.model import Cluster, PodOutcome, Result, Sample
from dray.simulate.report.intervals import Interval, interval
from dray.simulate.report.openb import openb_report
from dray.simulate.report.page import Report, html, write_figures
from dray.simulate.report.plots import PAPER, Lines, Point, Series, svg
from dray.simulate.report.runs import runs_report

SVG = "{http://www.w3.org/2000/svg}"


def figures(policy: str, seed: int, loss: float) -> Figures:
    allocated = {mark: min(mark, 100) - loss - seed / 10 for mark in MARKS}
    return Figures(policy, seed, 100, allocated, dict.fromkeys(MARKS, 50.0))


def openb() -> Report:
    runs = {
        name: [figures(name, seed, loss) for seed in (1, 2, 3)] for name, loss in (("fgd", 1), ("pack", 2))
    }
    published = {("fgd", "allocated_percent"): {100: 98.5, 130: 98.25}}
    return openb_report(runs, published, nodes="nodes.csv", pods="<pods>.csv")


def result(policy: str, seed: int) -> Result:
    samples = tuple(Sample(t * 60.0, t, t, 8000, 800 * t, 100.0, t, seed, 0) for t in range(11))
    pods = tuple(
        PodOutcome(
            f"default/p{n}", 0.0, scheduled=n, ended=n + 60.0, node="a-0", units=1000, waited=n, duration=60.0
        )
        for n in range(10)
    )
    return Result(policy, seed, 1, 8, pods, samples)


def runs() -> Report:
    devices = [{"name": f"gpu-{n}", "attributes": {"model": {"string": "A100"}}} for n in range(8)]
    one = {
        "metadata": {"name": "a"},
        "spec": {"driver": "d", "nodeName": "a-0", "pool": {"name": "a"}, "devices": devices},
    }
    cluster = Cluster(nodes=[{"metadata": {"name": "a-0"}}], slices=[one])  # type: ignore[list-item, typeddict-item]
    results = [result(policy, seed) for policy in ("fgd", "pack") for seed in (1, 2)]
    return runs_report(results, cluster=cluster, cluster_name="groups.yaml", workload="trace.csv")


def test_an_interval_is_students() -> None:
    assert interval([7.0]) == Interval(7.0, 0.0)
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (found.mean, found.margin) == (3.0, pytest.approx(1.963, abs=1e-3))


def test_figures_are_written_as_png_too(tmp_path: Path) -> None:
    write_figures(tmp_path, openb(), formats=("png",))
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == sorted(f"{plot.name}.png" for plot in openb().plots)
    header = files[0].read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(header[16:20], "big") == 3 * 640


@pytest.mark.parametrize("report", [openb(), runs()], ids=["openb", "runs"])
def test_every_policy_is_drawn_in_every_plot(report: Report, tmp_path: Path) -> None:
    write_figures(tmp_path / "figures", report)
    files = sorted(path.stem for path in (tmp_path / "figures").iterdir())
    assert files == sorted(plot.name for plot in report.plots)
    for path in (tmp_path / "figures").iterdir():
        drawing = ET.parse(path).getroot()
        titles = {
            title.text.partition(":")[0].partition(" at ")[0]
            for title in drawing.iter(f"{SVG}title")
            if title.text
        }
        assert {"fgd", "pack"} <= titles, path


def test_published_figures_stand_beside_ours() -> None:
    page = html(openb())
    assert "fgd, published" in page
    assert "98.80" in page  # 100 - 1 - mean(seeds) / 10
    assert "(+0.30)" in page


def test_names_from_elsewhere_stay_text_and_the_same_results_are_the_same_bytes() -> None:
    page = html(openb())
    assert "&lt;pods&gt;.csv" in page
    assert "<pods>" not in page
    assert page == html(openb())


def test_a_band_ends_where_values_can_end() -> None:
    plot = Lines(
        "a",
        "A",
        "x",
        "y",
        [Series("s", 0, [Point(0, Interval(99, 5)), Point(1, Interval(1, 5))])],
        bounds=(0, 100),
    )
    drawing = ET.fromstring(svg(plot, PAPER))
    ticks = [text.text for text in drawing.iter(f"{SVG}text")]
    assert "100" in ticks
    assert "120" not in ticks
