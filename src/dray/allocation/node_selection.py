"""Which nodes a slice or a device is for: node selection, matched and indexed.

A selection matches exactly as upstream's node affinity does. The index finds, for one node, every selection that may
match it without reading the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING

from dray.allocation.errors import AllocationError

if TYPE_CHECKING:
    from dray.api.types.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
    from dray.api.types.resource import Device, ResourceSliceSpec

Labels = Mapping[str, str]
NodeTest = Callable[[str, Labels], bool]  # node name, node labels

EVERYWHERE: Hashable = None


class NodeSelection:
    """The nodes that one slice, or one device of a slice, is available on."""

    __slots__ = ("_tests", "every", "keys", "name", "selector")

    def __init__(self, spec: ResourceSliceSpec | Device) -> None:
        self.name = spec.get("nodeName") or ""
        self.every = bool(spec.get("allNodes")) and not self.name
        self.selector = spec.get("nodeSelector")
        self._tests: list[list[NodeTest]] | None = None
        #: index keys; a node that matches has at least one of them
        self.keys: tuple[Hashable, ...] = tuple(_keys(self))

    @property
    def known(self) -> bool:
        """False for some future kind of selection, which matches no node."""
        return bool(self.name) or self.every or self.selector is not None

    def matches(self, name: str, labels: Labels) -> bool:
        if self.name:
            return name == self.name
        if self.every:
            return True
        if self.selector is None:
            return False
        if self._tests is None:
            self._tests = [_term(t) for t in _terms(self.selector)]
        return any(all(test(name, labels) for test in tests) for tests in self._tests)


def index_keys(name: str, labels: Labels) -> Iterator[Hashable]:
    """The index keys under which selections for this node are found."""
    yield EVERYWHERE
    yield name
    yield from labels.items()


def _keys(selection: NodeSelection) -> Iterator[Hashable]:
    if selection.name:
        yield selection.name
        return
    if selection.every or selection.selector is None:
        yield EVERYWHERE
        return
    for term in _terms(selection.selector):
        yield from _term_keys(term)


def _term_keys(term: NodeSelectorTerm) -> list[Hashable]:
    for requirement in term.get("matchFields") or ():
        if requirement.get("operator") == "In" and requirement.get("key") == "metadata.name":
            return list(requirement.get("values") or ())
    for requirement in term.get("matchExpressions") or ():
        if requirement.get("operator") == "In":
            return [(requirement.get("key"), value) for value in requirement.get("values") or ()]
    return [EVERYWHERE]


def _terms(selector: NodeSelector) -> list[NodeSelectorTerm]:
    # An empty term matches nothing.
    return [
        term
        for term in selector.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    ]


def _term(term: NodeSelectorTerm) -> list[NodeTest]:
    tests = [_on_labels(requirement) for requirement in term.get("matchExpressions") or ()]
    tests += [_on_fields(requirement) for requirement in term.get("matchFields") or ()]
    return tests


def _on_labels(requirement: NodeSelectorRequirement) -> NodeTest:
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values = requirement.get("values") or []
    match operator:
        case "In":
            return lambda _, labels: labels.get(key) in values if key in labels else False
        case "NotIn":
            return lambda _, labels: key not in labels or labels[key] not in values
        case "Exists":
            return lambda _, labels: key in labels
        case "DoesNotExist":
            return lambda _, labels: key not in labels
        case "Gt" | "Lt":
            limit = _integer(values[0]) if len(values) == 1 else None
            above = operator == "Gt"
            return lambda _, labels: _beyond(labels.get(key), limit, above=above)
        case _:
            raise AllocationError(f"failed to parse node selector: {operator!r} is not a valid operator")


def _on_fields(requirement: NodeSelectorRequirement) -> NodeTest:
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values = requirement.get("values") or []
    if operator not in ("In", "NotIn") or len(values) != 1:
        raise AllocationError("failed to parse node selector: must have one element")
    wanted, value = operator == "In", values[0]
    if key != "metadata.name":
        return lambda name, _: (value == "") is wanted
    return lambda name, _: (name == value) is wanted


def _integer(text: str | None) -> int | None:
    try:
        return int(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _beyond(value: str | None, limit: int | None, *, above: bool) -> bool:
    number = _integer(value)
    if number is None or limit is None:
        return False
    return number > limit if above else number < limit
