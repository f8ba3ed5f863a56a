"""Merging lists of tolerations, as upstream's ``pkg/util/tolerations`` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dray.api.types.core import Toleration

_NO_EXECUTE: Final = "NoExecute"


def merge(first: Sequence[Toleration], second: Sequence[Toleration]) -> list[Toleration]:
    """Both lists together, without those that another toleration makes superfluous."""
    every = [*first, *second]
    merged: list[Toleration] = []
    for at, one in enumerate(every):
        if any(_superset(kept, one) for kept in merged):
            continue
        if any(later != one and _superset(later, one) for later in every[at + 1 :]):
            continue
        merged.append(one)
    return merged


def _superset(more: Toleration, one: Toleration) -> bool:
    """Whether ``more`` tolerates all that ``one`` does."""
    if more == one:
        return True
    exists = more.get("operator") == "Exists"
    if one.get("key", "") != more.get("key", "") and not (exists and not more.get("key")):
        return False
    if more.get("effect") and one.get("effect", "") != more["effect"]:
        return False
    seconds = more.get("tolerationSeconds")
    if more.get("effect") == _NO_EXECUTE and seconds is not None:
        stays = one.get("tolerationSeconds")
        if stays is None or stays > seconds:
            return False
    if exists:
        return True
    # As upstream has it, a toleration that leaves out its operator is equal to none but itself.
    return one.get("operator") == "Equal" and one.get("value", "") == more.get("value", "")
