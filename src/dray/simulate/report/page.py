"""The page: facts, sections with plots and tables, in one HTML file. It has no scripts and loads nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from dray import atomicfile
from dray.simulate.model import SimulationError
from dray.simulate.report.plots import COLOURS, PAGE, PAPER, Plot, svg

_DARK = (
    "#60a5fa", "#fb923c", "#34d399", "#a78bfa", "#fb7185", "#22d3ee", "#facc15", "#e879f9", "#a3e635", "#a8a29e",
)  # fmt: skip

_STYLE = """
:root { color-scheme: light dark; --text: #1c1917; --muted: #57534e; --grid: #e7e5e4; --surface: #ffffff;
  --page: #f5f5f4; %LIGHT% }
@media (prefers-color-scheme: dark) {
  :root { --text: #f5f5f4; --muted: #b8b2ad; --grid: #3b3734; --surface: #1f1d1b; --page: #141312; %DARK% }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, -apple-system, "Segoe UI",
  Helvetica, Arial, sans-serif }
main { max-width: 1360px; margin: 0 auto; padding: 36px 28px 64px }
h1 { font-size: 28px; letter-spacing: -.02em; margin: 0 0 4px }
h2 { font-size: 19px; letter-spacing: -.01em; margin: 40px 0 4px }
p { color: var(--muted); margin: 0 0 14px; max-width: 82ch }
dl { display: flex; flex-wrap: wrap; gap: 10px 36px; margin: 20px 0 0 }
dt { color: var(--muted); font-size: 12.5px }
dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 520px), 1fr)); gap: 20px;
  align-items: start }
figure { margin: 0; border: 1px solid var(--grid); border-radius: 8px; background: var(--surface) }
figure svg { display: block; width: 100%; height: auto }
.table { overflow-x: auto; border: 1px solid var(--grid); border-radius: 8px; background: var(--surface); margin-top: 20px }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: 7px 16px; text-align: right; white-space: nowrap; border-top: 1px solid var(--grid) }
thead th { border-top: 0; color: var(--muted); font-weight: 500; font-size: 13px }
th:first-child, td:first-child { text-align: left }
td small { color: var(--muted) }
td.best { font-weight: 700 }
tr.published td { border-top: 0; color: var(--muted); padding-top: 0 }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 9px }
footer { color: var(--muted); font-size: 13px; margin-top: 40px }
@media print { main { padding: 0 } figure, .table { break-inside: avoid } }
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of a table. ``beside`` stands smaller after it; the best of a column is emphasized."""

    text: str
    beside: str = ""
    best: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    cells: Sequence[Cell]
    colour: int | None = None
    published: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    text: str
    plots: Sequence[Plot] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    text: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]

    @property
    def plots(self) -> Iterator[Plot]:
        for section in self.sections:
            yield from section.plots


def write_report(path: Path, report: Report) -> None:
    atomicfile.write(path, html(report).encode())


def write_figures(directory: Path, report: Report, *, formats: Collection[str] = ("svg",)) -> None:
    """Every plot as a file of its own, on white, for papers and slides, in each of the formats."""
    directory.mkdir(parents=True, exist_ok=True)
    for plot in report.plots:
        drawn = svg(plot, PAPER) + "\n"
        if "svg" in formats:
            atomicfile.write(directory / f"{plot.name}.svg", drawn.encode())
        if "png" in formats:
            atomicfile.write(directory / f"{plot.name}.png", png_renderer()(drawn))


def png_renderer() -> Callable[[str], bytes]:
    """From SVG to PNG, three times as large. Raises SimulationError if nobody here can do that."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise SimulationError("PNG figures need resvg: pip install 'dray[figures]'") from None
    return lambda drawn: bytes(svg_to_bytes(svg_string=drawn, zoom=3))


def html(report: Report) -> str:
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    style = _STYLE.replace("%LIGHT%", _variables(COLOURS)).replace("%DARK%", _variables(_DARK))
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    # A browser that obeys this loads nothing, whatever names of pods and policies contain.
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(report.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>{escape(report.title)}</h1>\n<p>{escape(report.text)}</p>\n<dl>"
    for name, value in report.facts:
        yield f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
    yield "</dl>"
    for section in report.sections:
        yield f"<section>\n<h2>{escape(section.title)}</h2>\n<p>{escape(section.text)}</p>"
        if section.plots:
            yield '<div class="plots">'
            for plot in section.plots:
                yield f'<figure id="{escape(plot.name)}">\n{svg(plot, PAGE)}\n</figure>'
            yield "</div>"
        if section.table is not None:
            yield from _table(section.table)
        yield "</section>"
    yield "<footer>Made by dray simulate. The decisions are those of the scheduler's own code.</footer>"
    yield "</main>\n</body>\n</html>"


def _variables(colours: Sequence[str]) -> str:
    return " ".join(f"--c{number}: {colour};" for number, colour in enumerate(colours))


def _table(table: Table) -> Iterator[str]:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    yield f'<div class="table" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>'
    for row in table.rows:
        swatch = (
            f'<span class="swatch" style="background: var(--c{row.colour % len(COLOURS)})"></span>'
            if row.colour is not None
            else ""
        )
        cells = "".join(map(_cell, row.cells))
        kind = ' class="published"' if row.published else ""
        yield f"<tr{kind}><td>{swatch}{escape(row.name)}</td>{cells}</tr>"
    yield "</tbody></table></div>"


def _cell(cell: Cell) -> str:
    emphasis = ' class="best"' if cell.best else ""
    beside = f" <small>{escape(cell.beside)}</small>" if cell.beside else ""
    return f"<td{emphasis}>{escape(cell.text)}{beside}</td>"
