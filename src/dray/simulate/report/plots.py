"""Plots as SVG: lines with bands, and dots with whiskers. A plot is frozen data; ``svg`` draws it.

The same plot is drawn for the page, where colours are variables of its style sheet (light and dark), and for a file of
its own, where they are plain colours on white that every program can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, inf, log10

from dray.simulate.report.intervals import Interval

COLOURS = (
    "#2563eb", "#c2410c", "#047857", "#7c3aed", "#be123c", "#0e7490", "#a16207", "#c026d3", "#4d7c0f", "#57534e",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ink:
    """The colours of a drawing."""

    text: str
    muted: str
    grid: str
    surface: str
    series: tuple[str, ...]

    def of(self, colour: int) -> str:
        return self.series[colour % len(self.series)]


PAPER = Ink("#1c1917", "#57534e", "#e7e5e4", "#ffffff", COLOURS)
PAGE = Ink(
    "var(--text)",
    "var(--muted)",
    "var(--grid)",
    "var(--surface)",
    tuple(f"var(--c{number})" for number in range(len(COLOURS))),
)


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: Interval


@dataclass(frozen=True, slots=True)
class Series:
    """A line. ``colour``: its number; a dashed line is somebody else's result."""

    name: str
    colour: int
    points: Sequence[Point]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """``name`` is the name of its file."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    diagonal: str = ""  # a faint line y = x with this name
    zero: bool = True  # the y axis begins at 0
    bounds: tuple[float, float] = (-inf, inf)  # no band goes beyond what there can be


@dataclass(frozen=True, slots=True)
class Dot:
    name: str
    colour: int
    value: Interval
    published: float | None = None


@dataclass(frozen=True, slots=True)
class Dots:
    """Rows with one dot or several, each with its interval and perhaps a published value."""

    name: str
    title: str
    x_label: str
    rows: Sequence[tuple[str, Sequence[Dot]]]
    zero: bool = False
    bounds: tuple[float, float] = (-inf, inf)


Plot = Lines | Dots

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _BOTTOM = 58, 18, 48
_FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
_LETTER = 6.7  # the mean width of a letter at 12 px
_MARKED = 24  # lines with more points have no marks


def svg(plot: Plot, ink: Ink) -> str:
    drawing = _lines(plot, ink) if isinstance(plot, Lines) else _dots(plot, ink)
    return "\n".join(drawing)


def _lines(plot: Lines, ink: Ink) -> Iterator[str]:
    entries = [(one.name, one.colour, one.dashed) for one in plot.series]
    legend, legend_height = _legend(entries, ink, 34)
    top = 34 + legend_height + 8
    points = [point for one in plot.series for point in one.points]
    xs = [point.x for point in points] or [0.0, 1.0]
    ys = [edge for point in points for edge in _edges(point.y, plot.bounds)] or [0.0, 1.0]
    x_axis = _Axis(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT, snug=True)
    y_axis = _Axis(min(0.0, *ys) if plot.zero else min(ys), max(ys), _HEIGHT - _BOTTOM, top)
    yield from _frame(plot.title, _HEIGHT, ink)
    yield from legend
    yield from _grid(x_axis, y_axis, top, ink)
    yield from _labels(plot.x_label, plot.y_label, top, _HEIGHT, ink)
    if plot.diagonal:
        low, high = max(x_axis.low, y_axis.low), min(x_axis.high, y_axis.high)
        if low < high:
            ends = " ".join(f"{x_axis.at(v):.1f},{y_axis.at(v):.1f}" for v in (low, high))
            yield f'<polyline points="{ends}" fill="none" stroke="{ink.muted}" stroke-dasharray="1 4"><title>{escape(plot.diagonal)}</title></polyline>'
    for one in plot.series:
        yield from _band(one, x_axis, y_axis, ink, plot.bounds)
    for one in plot.series:
        yield from _line(one, x_axis, y_axis, ink)
    yield "</svg>"


def _edges(value: Interval, bounds: tuple[float, float]) -> tuple[float, float]:
    return max(value.low, bounds[0]), min(value.high, bounds[1])


def _band(one: Series, x_axis: _Axis, y_axis: _Axis, ink: Ink, bounds: tuple[float, float]) -> Iterator[str]:
    if any(point.y.margin for point in one.points):
        upper = [(point.x, _edges(point.y, bounds)[1]) for point in one.points]
        lower = [(point.x, _edges(point.y, bounds)[0]) for point in reversed(one.points)]
        outline = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in upper + lower)
        yield f'<polygon class="band" points="{outline}" fill="{ink.of(one.colour)}" fill-opacity="0.16"/>'


def _line(one: Series, x_axis: _Axis, y_axis: _Axis, ink: Ink) -> Iterator[str]:
    colour = ink.of(one.colour)
    path = " ".join(f"{x_axis.at(point.x):.1f},{y_axis.at(point.y.mean):.1f}" for point in one.points)
    dash = ' stroke-dasharray="5 4" stroke-opacity="0.75"' if one.dashed else ""
    yield (
        f'<polyline class="line" points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-linejoin="round"{dash}><title>{escape(one.name)}</title></polyline>'
    )
    if len(one.points) > _MARKED or one.dashed:
        return
    for point in one.points:
        margin = f" ± {point.y.margin:.2f}" if point.y.margin else ""
        yield (
            f"<g>{_mark(one.colour, x_axis.at(point.x), y_axis.at(point.y.mean), colour, ink.surface)}"
            f"<title>{escape(one.name)} at {_number(point.x)}: {point.y.mean:.2f}{margin}</title></g>"
        )


def _dots(plot: Dots, ink: Ink) -> Iterator[str]:
    several = any(len(dots) > 1 for _, dots in plot.rows)
    dots = [dot for _, row in plot.rows for dot in row]
    entries: list[tuple[str, int, bool]] = []
    if several:
        entries = list(dict.fromkeys((dot.name, dot.colour, False) for dot in dots))
    legend, legend_height = _legend(entries, ink, 34)
    published = any(dot.published is not None for dot in dots)
    top = 34 + legend_height + (18 if published else 0) + 8
    lane = 15 if several else 28
    gap = 12 if several else 0
    height = top + sum(lane * len(row) + gap for _, row in plot.rows) + _BOTTOM
    left = min(220.0, max([_LEFT, *(18 + _LETTER * len(label) for label, _ in plot.rows)]))
    values = [edge for dot in dots for edge in _edges(dot.value, plot.bounds)]
    values += [dot.published for dot in dots if dot.published is not None]
    values = values or [0.0, 1.0]
    axis = _Axis(0.0 if plot.zero else min(values), max(values), left, _WIDTH - _RIGHT - 50)
    yield from _frame(plot.title, height, ink)
    yield from legend
    if published:
        y = 34 + legend_height + 12
        yield _diamond(left + 5, y - 4, ink.muted, ink.surface)
        yield f'<text x="{left + 15}" y="{y}" font-size="12" fill="{ink.muted}">published</text>'
    for tick in axis.ticks:
        x = axis.at(tick)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - _BOTTOM}" stroke="{ink.grid}"/>'
        yield _text(x, height - _BOTTOM + 18, _number(tick), ink.muted, anchor="middle")
    y = float(top)
    for label, row in plot.rows:
        middle = y + lane * len(row) / 2
        yield _text(left - 10, middle + 4, label, ink.text, anchor="end")
        for dot in row:
            yield from _dot(dot, axis, y + lane / 2, ink, plot.bounds)
            y += lane
        y += gap
        if several:
            yield f'<line x1="{left}" x2="{_WIDTH - _RIGHT}" y1="{y - gap / 2:.1f}" y2="{y - gap / 2:.1f}" stroke="{ink.grid}"/>'
    yield _text((left + axis.last) / 2, height - 10, plot.x_label, ink.muted, anchor="middle")
    yield "</svg>"


def _dot(dot: Dot, axis: _Axis, y: float, ink: Ink, bounds: tuple[float, float]) -> Iterator[str]:
    colour, value = ink.of(dot.colour), dot.value
    margin = f" ± {value.margin:.2f}" if value.margin else ""
    yield '<g class="dot">'
    edges = [*_edges(value, bounds)]
    if value.margin:
        low, high = (axis.at(edge) for edge in edges)
        yield f'<path d="M{low:.1f} {y - 4:.1f}v8M{low:.1f} {y:.1f}H{high:.1f}M{high:.1f} {y - 4:.1f}v8" stroke="{colour}" stroke-width="1.5" fill="none"/>'
    if dot.published is not None:
        yield _diamond(axis.at(dot.published), y, colour, ink.surface)
        edges.append(dot.published)
    yield _mark(dot.colour, axis.at(value.mean), y, colour, ink.surface)
    yield _text(axis.at(max(edges)) + 10, y + 4, _figure(value.mean), ink.muted, size=11)
    beside = f", published {dot.published:.2f}" if dot.published is not None else ""
    yield f"<title>{escape(dot.name)}: {value.mean:.2f}{margin}{beside}</title></g>"


class _Axis:
    """From values to places, with round ticks."""

    def __init__(self, low: float, high: float, first: float, last: float, *, snug: bool = False) -> None:
        if high <= low:
            low, high = (low - 1, high) if low > 0 else (low, low + 1)
        step = _round_step((high - low) / 6)
        if not snug:
            low, high = floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step
        self.low, self.high, self.first, self.last = low, high, first, last
        begin = ceil(low / step - 1e-9)
        self.ticks = [number * step for number in range(begin, floor(high / step + 1e-9) + 1)]

    def at(self, value: float) -> float:
        return self.first + (value - self.low) / (self.high - self.low) * (self.last - self.first)


def _round_step(about: float) -> float:
    power = 10.0 ** floor(log10(about))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= about * 0.999)


def _frame(title: str, height: float, ink: Ink) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(title)}" font-family="{_FONT}">'
    )
    yield f'<rect width="100%" height="100%" rx="8" fill="{ink.surface}"/>'
    yield f'<text x="16" y="24" font-size="14" font-weight="600" fill="{ink.text}">{escape(title)}</text>'


def _legend(entries: Sequence[tuple[str, int, bool]], ink: Ink, top: float) -> tuple[list[str], float]:
    """The drawing, and how high it is."""
    x, y = 16.0, top + 12
    drawn: list[str] = []
    for name, colour, dashed in entries:
        width = 32 + _LETTER * len(name) + 14
        if x > 16 and x + width > _WIDTH - _RIGHT:
            x, y = 16.0, y + 18
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        drawn.append(
            f'<line x1="{x:.1f}" x2="{x + 22:.1f}" y1="{y - 4}" y2="{y - 4}" stroke="{ink.of(colour)}" '
            f'stroke-width="2"{dash}/>'
        )
        if not dashed:
            drawn.append(_mark(colour, x + 11, y - 4, ink.of(colour), ink.surface))
        drawn.append(_text(x + 28, y, name, ink.text))
        x += width
    return drawn, (y - top + 4 if entries else 0)


def _grid(x_axis: _Axis, y_axis: _Axis, top: float, ink: Ink) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    for tick in y_axis.ticks:
        y = y_axis.at(tick)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{ink.grid}"/>'
        yield _text(_LEFT - 8, y + 4, _number(tick), ink.muted, anchor="end")
    for tick in x_axis.ticks:
        x = x_axis.at(tick)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}" stroke="{ink.muted}"/>'
        yield _text(x, bottom + 18, _number(tick), ink.muted, anchor="middle")
    yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}" stroke="{ink.muted}"/>'


def _labels(x_label: str, y_label: str, top: float, height: float, ink: Ink) -> Iterator[str]:
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, height - 10, x_label, ink.muted, anchor="middle")
    middle = (top + height - _BOTTOM) / 2
    yield (
        f'<text transform="translate(15 {middle:.1f}) rotate(-90)" text-anchor="middle" font-size="12" '
        f'fill="{ink.muted}">{escape(y_label)}</text>'
    )


def _text(x: float, y: float, text: str, colour: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">'
        f"{escape(text)}</text>"
    )


def _circle(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6"'


def _square(x: float, y: float) -> str:
    return f'<rect x="{x - 3.3:.1f}" y="{y - 3.3:.1f}" width="6.6" height="6.6"'


def _triangle(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y - 4.4:.1f}l4.2 7.6h-8.4z"'


def _upside_down(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y + 4.4:.1f}l4.2 -7.6h-8.4z"'


_MARKS: tuple[Callable[[float, float], str], ...] = (_circle, _square, _triangle, _upside_down)


def _mark(number: int, x: float, y: float, colour: str, surface: str) -> str:
    """Neighbours differ in their shape as well as in their colour."""
    return f'{_MARKS[number % len(_MARKS)](x, y)} fill="{colour}" stroke="{surface}" stroke-width="1"/>'


def _diamond(x: float, y: float, colour: str, surface: str) -> str:
    return (
        f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" fill="{surface}" stroke="{colour}" '
        'stroke-width="1.5" class="published"/>'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{round(value, 6):g}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if value else "0"
