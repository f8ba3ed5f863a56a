"""What the columns of many kinds share: ages, label lists, and the two columns every table has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dray.api.scheme.kinds import Column, Printer

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Container, PodSpec

# The two descriptions every table carries are part of the wire format that clients compare.
NAME = Column(
    "Name",
    format="name",
    description=(
        "Name must be unique within a namespace. Is required when creating resources, although some resources may "
        "allow a client to request the generation of an appropriate name automatically. Name is primarily intended "
        "for creation idempotence and configuration definition. Cannot be updated. More info: "
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
)
AGE = Column(
    "Age",
    description=(
        "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
        "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. "
        "It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. "
        "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
)
CREATED_AT = AGE._replace(name="Created At", type="date")


def seconds(timestamp: str) -> float:
    """Epoch seconds of an RFC 3339 timestamp."""
    return datetime.fromisoformat(timestamp).replace(tzinfo=UTC).timestamp()


def human_duration(elapsed: float) -> str:
    """A span of time in two or three significant figures, as kubectl shows it."""
    total = int(elapsed)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if total < 120:
        return f"{total}s"
    minutes, hours = total // 60, total // 3600
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def since(timestamp: str | None, now: float) -> str:
    return human_duration(now - seconds(timestamp)) if timestamp else "<unknown>"


def name(obj: Object) -> str:
    return obj["metadata"].get("name", "")


def age(obj: Object, now: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def labels(pairs: Mapping[str, str] | None) -> str:
    """``a=1,b=2`` in order of keys."""
    return ",".join(f"{k}={v}" for k, v in sorted(pairs.items())) if pairs else "<none>"


def containers(pod_spec: PodSpec) -> tuple[str, str]:
    """Names and images of a pod's containers."""
    listed: Sequence[Container] = pod_spec.get("containers") or ()
    return ",".join(c["name"] for c in listed), ",".join(c.get("image", "") for c in listed)


def printer(columns: Sequence[Column], cells: Callable[[Any, float], Sequence[Any]]) -> Printer:
    return Printer(columns=tuple(columns), cells=cells)


NAME_AND_AGE = printer((NAME, AGE), lambda obj, now: (name(obj), age(obj, now)))

#: What kinds without columns of their own show.
DEFAULT_PRINTER = printer(
    (NAME, CREATED_AT), lambda obj, now: (name(obj), obj["metadata"].get("creationTimestamp", ""))
)
