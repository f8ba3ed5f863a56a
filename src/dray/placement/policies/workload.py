"""What is known about the workload: the typical requests, counted from the pods that are there or given beforehand.

Typical are the most frequent requests that together make up 95 % of all pods. Requests that differ in memory alone are
one: memory says little about who can use a device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dray.api.compute import milli
from dray.placement.policies.model import PolicyError, Request, TypicalRequest, TypicalShape

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceClaim, DeviceRequest
    from dray.placement.policies.states import Requests

TYPICAL_PART = 0.95


class KnownWorkload:
    """A workload that does not change."""

    version = 0

    def __init__(self, typical: Sequence[TypicalRequest] = ()) -> None:
        self.typical = typical

    @classmethod
    def of(cls, requests: Iterable[Request]) -> KnownWorkload:
        """The typical requests of these pods."""
        counts: Counter[Hashable] = Counter()
        examples: dict[Hashable, Request] = {}
        for request in requests:
            counts[request.key] += 1
            examples.setdefault(request.key, request)
        return cls(typical_requests(counts, examples))


class ObservedWorkload:
    """A workload that is counted from the pods that are there, from their first attempt until they are gone.

    The typical requests are worked out anew when as many pods have come or gone as there were at the last time, so the
    work for each pod does not grow. A scheduler and a simulator that try the same pods in the same order have the same
    typical requests at each attempt.
    """

    def __init__(self) -> None:
        self.version = 0
        self._counts: Counter[Hashable] = Counter()
        self._examples: dict[Hashable, Request] = {}
        self._requests: dict[str, Request] = {}  # by the pod's uid
        self._typical: Sequence[TypicalRequest] = ()
        self._counted = 0  # pods, when the typical requests were worked out
        self._changes = 0  # since then

    @property
    def typical(self) -> Sequence[TypicalRequest]:
        return self._typical

    def add(self, uid: str, request: Request) -> None:
        if uid in self._requests:
            return
        self._requests[uid] = request
        self._counts[request.key] += 1
        self._examples.setdefault(request.key, request)
        self._refresh()

    def remove(self, uid: str) -> None:
        request = self._requests.pop(uid, None)
        if request is None:
            return
        self._counts[request.key] -= 1
        if not self._counts[request.key]:
            del self._counts[request.key], self._examples[request.key]
        self._refresh()

    def _refresh(self) -> None:
        self._changes += 1
        if self._changes >= self._counted:
            self._changes, self._counted = 0, len(self._requests)
            self._typical = typical_requests(self._counts, self._examples)
            self.version += 1


class DeclaredWorkload:
    """A workload that somebody has declared. Its requests are read anew when device classes have changed."""

    def __init__(self, shapes: Sequence[TypicalShape], requests: Requests) -> None:
        self.version = 0
        self._shapes = shapes
        self._requests = requests
        self._typical: Sequence[TypicalRequest] | None = None

    @property
    def typical(self) -> Sequence[TypicalRequest]:
        if self._typical is None:
            total = sum(shape.weight for shape in self._shapes)
            self._typical = tuple(
                TypicalRequest(self._requests.of_shape(shape), shape.weight / total) for shape in self._shapes
            )
        return self._typical

    def renew(self) -> None:
        self._typical = None
        self.version += 1


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    cpu: str | int | float = 0
    weight: float = 1.0
    devices: dict[str, Any] = {}  # as somebody wrote it


def parse_typical(document: Any, path: str) -> tuple[TypicalShape, ...]:
    """Typical pods as a list of ``cpu``, ``devices`` (of a ResourceClaim's spec) and ``weight``; ``path`` for messages."""
    try:
        found = msgspec.convert(document, list[_Document])
        shapes = tuple(_shape(one) for one in found)
    except (msgspec.ValidationError, ValueError) as problem:
        raise PolicyError(f"{path}: {problem}") from None
    if not shapes or not all(shape.weight > 0 for shape in shapes):
        raise PolicyError(f"{path}: it needs pods, each with a positive weight")
    return shapes


def _shape(one: _Document) -> TypicalShape:
    if not one.devices:
        return TypicalShape(milli(str(one.cpu)), None, one.weight)
    written = cast("DeviceClaim", one.devices)
    devices: DeviceClaim = {
        **written,
        "requests": [_defaulted(each) for each in written.get("requests") or ()],
    }
    return TypicalShape(milli(str(one.cpu)), devices, one.weight)


def _defaulted(request: DeviceRequest) -> DeviceRequest:
    """The request as the API server stores it."""
    if "exactly" not in request:
        return request
    return {**request, "exactly": {"allocationMode": "ExactCount", "count": 1, **request["exactly"]}}


def typical_requests(
    counts: Counter[Hashable], examples: dict[Hashable, Request]
) -> Sequence[TypicalRequest]:
    """The most frequent requests; of equally frequent ones those that ask for more come first."""
    wanted = TYPICAL_PART * counts.total()
    ordered = sorted(counts, key=lambda key: (counts[key], examples[key].cpu, repr(key)), reverse=True)
    chosen: list[Hashable] = []
    covered = 0
    for key in ordered:
        if covered >= wanted:
            break
        chosen.append(key)
        covered += counts[key]
    return tuple(TypicalRequest(examples[key], counts[key] / covered) for key in chosen)
