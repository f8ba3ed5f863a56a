"""Reading objects of any kind: owners, finalizers, conditions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Required, TypedDict, TypeVar

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.meta import OwnerReference

    class AnyCondition(TypedDict, total=False):
        """What the conditions of all kinds have in common."""

        type: Required[str]
        status: Required[str]


#: The bytes that an object may have in storage: etcd refuses larger requests.
MOST_STORED: Final = 1536 << 10
#: Generated names end in letters and digits of these; vowels and look-alikes are missing, so that no word comes out.
SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5

C = TypeVar("C", bound="AnyCondition")


def controller_of(obj: Object) -> OwnerReference | None:
    """The owner reference that is marked as the controller."""
    owners = obj["metadata"].get("ownerReferences")
    if owners:
        for owner in owners:
            if owner.get("controller"):
                return owner
    return None


def has_finalizer(obj: Object, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or ())


def is_terminating(obj: Object) -> bool:
    """Whether somebody has asked for the object's deletion."""
    return "deletionTimestamp" in obj["metadata"]


def find_condition(conditions: Iterable[C] | None, type_: str) -> C | None:
    for condition in conditions or ():
        if condition["type"] == type_:
            return condition
    return None


def is_condition_true(conditions: Iterable[C] | None, type_: str) -> bool:
    found = find_condition(conditions, type_)
    return found is not None and found["status"] == "True"


def clone(value: Any) -> Any:
    """A deep copy of plain JSON data."""
    if isinstance(value, dict):
        return {k: clone(v) if isinstance(v, dict | list) else v for k, v in value.items()}
    if isinstance(value, list):
        return [clone(v) if isinstance(v, dict | list) else v for v in value]
    return value
