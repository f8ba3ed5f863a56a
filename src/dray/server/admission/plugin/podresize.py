"""PodResizeValidator: a resized pod must not request more than its node's allocatable resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.errors import StatusError
from dray.api.groups.core.pod.resources import container_requests
from dray.api.quantity import Quantity
from dray.server.admission import UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod, PodSpec

_OS: Final = "kubernetes.io/os"
_PLATFORM: Final = "UnsupportedPlatform"
_CAPACITY: Final = "NodeCapacity"


class PodResizeValidator:
    name = "PodResizeValidator"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == UPDATE and scope.is_for("", "pods", "resize")

    async def validate(self, attributes: Attributes) -> None:
        new: Pod = attributes.object
        old: Pod = attributes.old
        name = new.get("spec", {}).get("nodeName")
        if not name or new["metadata"].get("generation") == old["metadata"].get("generation"):
            return
        node: Node | None = self._listers.get("", "nodes", name)
        if node is None:
            raise attributes.forbidden(f'node "{name}" not found')
        system = (node["metadata"].get("labels") or {}).get(_OS, "linux")
        if system != "linux":
            words = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            raise _refused(attributes, words, _PLATFORM)
        if problem := _beyond(new["spec"], node):
            raise _refused(attributes, problem, _CAPACITY)


def _beyond(spec: PodSpec, node: Node) -> str:
    """What a pod wants more of than its node has."""
    requests = container_requests(spec)
    own = (spec.get("resources") or {}).get("requests") or {}
    requests |= {name: Quantity.parse(own[name]) for name in ("cpu", "memory") if name in own}
    for name, amount in (spec.get("overhead") or {}).items():
        requests[name] = requests.get(name, Quantity()) + Quantity.parse(amount)
    allocatable = node.get("status", {}).get("allocatable") or {}
    found = []
    for name, measure in (("cpu", Quantity.milli_value), ("memory", Quantity.value)):
        asked, most = requests.get(name, Quantity()), Quantity.parse(allocatable.get(name, "0"))
        if asked > most:
            found.append(f"{name}, requested: {measure(asked)}, allocatable: {measure(most)}")
    return f"node didn't have enough allocatable resources: {'; '.join(found)}" if found else ""


def _refused(attributes: Attributes, problem: str, reason: str) -> StatusError:
    error = attributes.forbidden(problem)
    assert error.details is not None
    error.details["causes"] = [{"reason": reason}]
    return error
