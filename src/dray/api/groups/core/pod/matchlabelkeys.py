"""Label keys whose values come from the pod itself become part of its selectors when it is created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dray.api.release import Gates

if TYPE_CHECKING:
    from dray.api.types.core import Affinity, Pod


def merge_label_keys(pod: Pod, gates: Gates) -> None:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    spec = pod["spec"]
    if (affinity := spec.get("affinity")) and "MatchLabelKeysInPodAffinity" in gates:
        for term in _terms(affinity):
            _merge(term, "matchLabelKeys", "In", labels)
            _merge(term, "mismatchLabelKeys", "NotIn", labels)
    if "MatchLabelKeysInPodTopologySpreadSelectorMerge" in gates:
        for constraint in spec.get("topologySpreadConstraints") or ():
            _merge(constraint, "matchLabelKeys", "In", labels)


def _terms(affinity: Affinity) -> Iterator[Any]:
    for part in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(part) or {}
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}
        yield from terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _merge(term: Any, part: str, operator: str, labels: Mapping[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    more = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for key in term.get(part) or ()
        if key in labels
    ]
    if more:
        expressions = [*(selector.get("matchExpressions") or ()), *more]
        term["labelSelector"] = {**selector, "matchExpressions": expressions}
