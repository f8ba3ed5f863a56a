"""node.k8s.io: ways in which a node runs containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.golang import structs
from dray.api.groups.core import resourcenames
from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.groups.core.pod.resources import check_requirements
from dray.api.groups.core.pod.tolerations import check_tolerations
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy, immutable
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Toleration
    from dray.api.types.node import RuntimeClass

_SCHEDULING: Final = Path("scheduling")


def _default(obj: RuntimeClass) -> None:
    overhead = obj.get("overhead") or {}
    if overhead.get("podFixed"):
        overhead["podFixed"] = resourcenames.rounded(overhead["podFixed"])


class RuntimeClassStrategy(SubdomainStrategy["RuntimeClass"]):
    create_on_update = True
    unconditional_update = False

    def validate(self, obj: RuntimeClass, ctx: Context) -> Sequence[FieldError]:
        handler, path = obj.get("handler", ""), Path("handler")
        found = checks.dns_label(handler, path) if handler else [field.required(path)]
        if (overhead := obj.get("overhead")) is not None:
            found += check_requirements(
                {"limits": overhead.get("podFixed") or {}}, Path("overhead"), claims=()
            )
        if (scheduling := obj.get("scheduling")) is not None:
            found += checks.labels(scheduling.get("nodeSelector"), _SCHEDULING.child("nodeSelector"))
            tolerations = scheduling.get("tolerations") or ()
            found += _check_tolerations(tolerations, _SCHEDULING.child("tolerations"), ctx)
        return found

    def validate_update(self, new: RuntimeClass, old: RuntimeClass, ctx: Context) -> Sequence[FieldError]:
        return immutable(new.get("handler", ""), old.get("handler", ""), Path("handler"))


def _check_tolerations(tolerations: Sequence[Toleration], path: Path, ctx: Context) -> list[FieldError]:
    found = check_tolerations(tolerations, path, PodValidationOptions(gates=ctx.gates))
    seen: set[tuple[str, ...]] = set()
    for i, toleration in enumerate(tolerations):
        identity = tuple(toleration.get(part, "") for part in ("key", "operator", "value", "effect"))
        if identity in seen:
            found.append(field.duplicate(path.index(i), structs.render("core/v1.Toleration", toleration)))
        seen.add(identity)
    return found


RUNTIME_CLASS = Kind(
    group="node.k8s.io",
    kind="RuntimeClass",
    plural="runtimeclasses",
    namespaced=False,
    versions=(Version(name="v1", type="node/v1.RuntimeClass", default=_default),),
    storage="v1",
    strategy=RuntimeClassStrategy(),
    printer=printers.printer(
        (printers.NAME, Column("Handler", description="What nodes call this way."), printers.AGE),
        lambda obj, now: (printers.name(obj), obj.get("handler", ""), printers.age(obj, now)),
    ),
)
KINDS = (RUNTIME_CLASS,)
