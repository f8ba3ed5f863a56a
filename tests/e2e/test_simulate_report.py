"""The report of a simulation in a real browser: every plot is drawn, and nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner
from playwright.sync_api import sync_playwright

from dray.cli.commands import dray

pytestmark = pytest.mark.xdist_group("ui")

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},64000,262144,4,G2\n" for i in range(8))
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
    f"p{i:03},4000,4096,1,{share}\n" for i, share in enumerate([1000, 500, 250] * 15)
)
EXPECTED = "workload,policy,measure,50,100,130\nsmall,FGD,allocated_percent_mean,50.0,97.0,98.5\n"
GROUPS = """
classes:
- metadata: {name: gpu}
  spec: {}
groups:
- name: a100
  count: 2
  allocatable: {cpu: "64", memory: 64Gi}
  slices: [{driver: gpu.example.com, count: 4}]
"""
TRACE = "name,arrival,duration,cpu,count,device_class\n" + "".join(
    f"p{i},{i * 5},120,1,{1 + i % 2},gpu\n" for i in range(30)
)


def arguments(directory: Path, kind: str) -> list[str]:
    for name, content in {
        "nodes.csv": NODES,
        "list_small.csv": PODS,
        "expected.csv": EXPECTED,
        "groups.yaml": GROUPS,
        "trace.csv": TRACE,
    }.items():
        (directory / name).write_text(content)
    if kind == "openb":
        return ["openb", "--nodes", "nodes.csv", "--pods", "list_small.csv", "--expected", "expected.csv"]
    return ["run", "--cluster", "groups.yaml", "-f", "trace.csv"]


@pytest.mark.parametrize(("kind", "plots"), [("openb", 5), ("run", 9)])
def test_a_report_draws_every_plot_and_loads_nothing_from_elsewhere(
    kind: str, plots: int, tmp_path: Path, tool: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--policy", "fgd", "--policy", "pack", "--seeds", "1-2", "--processes", "1"]
    done = CliRunner().invoke(
        dray,
        ["simulate", *arguments(tmp_path, kind), *options, "--report", "report.html", "--figures", "svg"],
    )
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "svg").glob("*.svg"))) == plots

    loaded: list[str] = []
    wrong: list[str] = []
    address = (tmp_path / "report.html").as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=tool("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
            page.on("request", lambda one: loaded.append(one.url))
            page.on("console", lambda said: wrong.append(said.text))
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.goto(address)
            drawn = page.locator("figure svg")
            assert drawn.count() == plots
            for number in range(plots):
                box = drawn.nth(number).bounding_box()
                assert box is not None
                assert box["width"] > 300
                marks = drawn.nth(number).locator("polyline.line, g.dot")
                assert marks.count() >= 2
                # A colour that the style sheet lacks would leave the marks invisible.
                assert "none" not in marks.first.evaluate("""one => {
                    const shape = one.matches("polyline") ? one : one.querySelector("circle, rect");
                    const style = getComputedStyle(shape);
                    return one.matches("polyline") ? style.stroke : style.fill;
                }""")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
            assert not found.response["violations"], found.generate_report()
        browser.close()
    assert loaded == [address] * 2
    assert wrong == []
