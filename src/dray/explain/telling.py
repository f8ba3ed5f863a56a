"""An explanation as text, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dray.explain.model import Explanation, NodeGroup, Removed, RequestStory

Paint = Callable[[str, str], str]
_GROUPS_SHOWN = 8


def _plain(text: str, style: str) -> str:
    return text


def tell(explanation: Explanation, *, paint: Paint = _plain) -> str:
    return "\n".join(_lines(explanation, paint))


def _lines(explanation: Explanation, paint: Paint) -> Iterator[str]:
    colour = "green" if explanation.well else "red"
    state = paint(explanation.outcome.value, colour)
    yield f"{paint(explanation.subject, 'bold')} is {state}: {explanation.headline}"
    if explanation.scheduler:
        yield f"  the scheduler says: {explanation.scheduler}"
    for fact in explanation.facts:
        yield f"  {fact}"
    for story in explanation.requests:
        yield ""
        yield from _request(story, paint)
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


def _request(story: RequestStory, paint: Paint) -> Iterator[str]:
    wanted = "all devices" if story.wanted is None else f"{story.wanted} device{'s' * (story.wanted != 1)}"
    head = f"Request {story.request} of claim {story.claim}"
    yield f"{paint(head, 'bold')} wants {wanted} of class {story.device_class}"
    yield f"  {story.considered} devices looked at, {story.usable} usable"
    for removed in story.removed:
        yield from _removed(removed, paint)
    if story.nearest:
        yield f"  nearest miss: {story.nearest}"


def _removed(removed: Removed, paint: Paint) -> Iterator[str]:
    yield f"  {paint(str(removed.count), 'yellow')} removed by {removed.cause}: {removed.detail}"
    if len(removed.conditions) > 1:
        for condition in removed.conditions:
            mark = paint("✓", "green") if condition.true else paint("✗", "red")
            fails = f", fails on {condition.failing}: {condition.error}" if condition.error else ""
            total = condition.true + condition.false
            yield f"      {mark} {condition.source}   (true on {condition.true} of {total}{fails})"
    for one in removed.asked:
        values = ", ".join(f"{value} ({count})" for value, count in one.values)
        if one.others:
            values += f", others ({one.others})"
        if one.missing:
            values += f"{', ' if values else ''}none ({one.missing})"
        sort = "capacity " if one.table == "capacity" else ""
        hint = f"   ← did you mean {one.suggestion}?" if one.suggestion else ""
        yield f"      {sort}{one.name} on the devices asked: {values}{paint(hint, 'cyan') if hint else ''}"
    if removed.holders:
        yield f"      in use by {', '.join(removed.holders)}"
    elif removed.examples and not removed.source:
        yield f"      such as {', '.join(map(str, removed.examples))}"


def _group(group: NodeGroup, paint: Paint) -> Iterator[str]:
    mark = paint("✓", "green") if group.fits else paint("✗", "red")
    names = ", ".join(group.examples) + (" …" if group.count > len(group.examples) else "")
    count = f"{group.count} node{'s' * (group.count != 1)}"
    yield f"  {mark} {count}: {names}"
    lead = f"      on {group.closest}: " if group.count > 1 else "      "
    for text in (*group.causes, *group.devices):
        yield f"{lead}{text}"
