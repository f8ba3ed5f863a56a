"""Does this node, taint or label set satisfy what a pod says about it? Compiled once, asked often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dray.api.types.core import NodeSelector, NodeSelectorTerm, PodSpec, Taint, Toleration

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]
NodeTest = Callable[[str, Labels], bool]  # (node name, node labels)


def label_selector(selector: Mapping[str, Any] | None) -> LabelTest:
    """A LabelSelector object as a test. None matches nothing, an empty one everything."""
    if selector is None:
        return lambda labels: False
    expressions = selector.get("matchExpressions") or ()
    tests = [_equals(k, v) for k, v in (selector.get("matchLabels") or {}).items()]
    tests += [_expression(e["key"], e["operator"], e.get("values") or ()) for e in expressions]
    return _all(tests)


def node_selector(selector: NodeSelector) -> NodeTest:
    """A NodeSelector: any of its terms. A term without requirements matches nothing."""
    terms = [
        t for t in (_node_term(term) for term in selector.get("nodeSelectorTerms") or ()) if t is not None
    ]
    if len(terms) == 1:
        return terms[0]
    return lambda name, labels: any(term(name, labels) for term in terms)


def node_selector_term(term: NodeSelectorTerm) -> NodeTest:
    return _node_term(term) or (lambda name, labels: False)


def _node_term(term: NodeSelectorTerm) -> NodeTest | None:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return None
    on_labels = _all([_expression(e["key"], e["operator"], e.get("values") or ()) for e in expressions])
    if not fields:
        return lambda name, labels: on_labels(labels)
    on_fields = _all([_expression(f["key"], f["operator"], f.get("values") or ()) for f in fields])
    return lambda name, labels: on_labels(labels) and on_fields({"metadata.name": name})


def required_node_affinity(spec: PodSpec) -> NodeTest | None:
    """nodeSelector and required node affinity together, or None where the pod takes any node."""
    tests: list[NodeTest] = []
    chosen = spec.get("nodeSelector")
    if chosen:
        exact = _all([_equals(k, v) for k, v in chosen.items()])
        tests.append(lambda name, labels: exact(labels))
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity:
        tests.append(node_selector(affinity))
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda name, labels: all(test(name, labels) for test in tests)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    effect = toleration.get("effect")
    if effect and effect != taint.get("effect"):
        return False
    key = toleration.get("key")
    if key and key != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case "Lt":
            return _numbers(taint.get("value"), toleration.get("value"), lambda t, limit: t < limit)
        case "Gt":
            return _numbers(taint.get("value"), toleration.get("value"), lambda t, limit: t > limit)
    return False


def find_untolerated_taint(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: tuple[str, ...],
) -> Taint | None:
    """The first taint with one of the effects that nothing tolerates."""
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None


def _numbers(a: Any, b: Any, compare: Callable[[int, int], bool]) -> bool:
    try:
        return compare(int(a), int(b))
    except (TypeError, ValueError):
        return False


def _all(tests: list[LabelTest]) -> LabelTest:
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def _equals(key: str, value: str) -> LabelTest:
    return lambda labels: labels.get(key) == value


def _expression(key: str, operator: str, values: Sequence[str]) -> LabelTest:
    wanted = frozenset(values)
    match operator:
        case "In":
            return lambda labels: labels.get(key) in wanted
        case "NotIn":
            return lambda labels: key not in labels or labels[key] not in wanted
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case "Gt":
            return lambda labels: _numbers(labels.get(key), values[0] if values else None, lambda a, b: a > b)
        case "Lt":
            return lambda labels: _numbers(labels.get(key), values[0] if values else None, lambda a, b: a < b)
    return lambda labels: False
