"""An explanation as text, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dray.allocation import Cause
from dray.explain.model.explanation import Explanation, NodeGroup, Outcome, RemovedDevices, RequestExplanation

Paint = Callable[[str, str], str]
_GROUPS_SHOWN = 8


def _plain(text: str, style: str) -> str:
    return text


def render_text(explanation: Explanation, *, paint: Paint = _plain) -> str:
    return "\n".join(_lines(explanation, paint))


def _lines(explanation: Explanation, paint: Paint) -> Iterator[str]:
    colour = "green" if explanation.well else "red"
    state = paint(explanation.outcome.value, colour)
    verb = "" if explanation.outcome is Outcome.FITS else "is "
    yield f"{paint(explanation.subject, 'bold')} {verb}{state}: {explanation.headline}"
    if explanation.scheduler:
        yield paint(f"  the scheduler says: {explanation.scheduler}", "dim")
    for fact in explanation.facts:
        yield f"  {fact}"
    for request in explanation.requests:
        yield ""
        yield from _request(request, paint)
    if explanation.nodes:
        yield ""
        yield paint("Nodes", "bold")
        for group in explanation.nodes[:_GROUPS_SHOWN]:
            yield from _group(group, paint)
        rest = explanation.nodes[_GROUPS_SHOWN:]
        if rest:
            yield f"  … and {sum(group.count for group in rest)} nodes for other mixtures of these reasons"
    if explanation.advice:
        yield ""
        yield paint("What would help", "bold")
        for text in explanation.advice:
            yield f"  - {text}"


def _request(request: RequestExplanation, paint: Paint) -> Iterator[str]:
    wanted = (
        "all devices" if request.wanted is None else f"{request.wanted} device{'s' * (request.wanted != 1)}"
    )
    head = paint(f"Request {request.request} of claim {request.claim}", "bold")
    usable = paint(str(request.usable), "green" if request.usable else "red")
    yield f"{head}: {wanted} of class {request.device_class}; {usable} of {request.considered} usable"
    width = max((len(str(one.count)) for one in request.removed), default=0)
    for removed in request.removed:
        yield from _removed(
            removed, width, paint, brief=_outside(removed) and removed.count < request.considered
        )
    if request.nearest:
        yield f"  nearest miss: {request.nearest}"


def _outside(removed: RemovedDevices) -> bool:
    return removed.cause == Cause.CLASS_SELECTOR.value


def _removed(removed: RemovedDevices, width: int, paint: Paint, *, brief: bool) -> Iterator[str]:
    yield f"  {paint(str(removed.count).rjust(width), 'yellow')} {paint('✗', 'red')} {removed.text}"
    if brief:
        return
    indent = " " * (width + 5)
    if len(removed.conditions) > 1:
        for condition in removed.conditions:
            mark = paint("✓", "green") if condition.true else paint("✗", "red")
            fails = f", fails on {condition.failing}: {condition.error}" if condition.error else ""
            total = condition.true + condition.false
            yield f"{indent}{mark} {condition.source}   (true on {condition.true} of {total}{fails})"
    elif removed.source:
        yield f"{indent}{removed.source}"
    for one in removed.asked:
        values = ", ".join(f"{value} ({count})" for value, count in one.values)
        if one.others:
            values += f", others ({one.others})"
        if one.missing:
            values += f"{', ' if values else ''}none ({one.missing})"
        sort = "capacity " if one.table == "capacity" else ""
        hint = f"   ← did you mean {one.suggestion}?" if one.suggestion else ""
        yield f"{indent}devices have {sort}{one.name}: {values}{paint(hint, 'cyan') if hint else ''}"
    if removed.holders:
        yield f"{indent}in use by {', '.join(removed.holders)}"
    elif removed.examples and not removed.source:
        yield f"{indent}such as {', '.join(map(str, removed.examples))}"


def _group(group: NodeGroup, paint: Paint) -> Iterator[str]:
    mark = paint("✓", "green") if group.fits else paint("✗", "red")
    names = ", ".join(group.examples) + (" …" if group.count > len(group.examples) else "")
    count = f"{group.count} node{'s' * (group.count != 1)}"
    yield f"  {mark} {count}: {names}"
    lead = f"on {group.closest}: " if group.count > 1 else ""
    for text in (*group.causes, *group.devices):
        yield f"      {lead}{text}"
        lead = " " * len(lead)
