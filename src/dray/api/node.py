"""node.k8s.io: ways in which a node runs containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dray.api import checks, field, internal, printing
from dray.api.core import quantities
from dray.api.core.pod.options import Options
from dray.api.core.pod.resources import check_requirements
from dray.api.core.pod.tolerations import check_tolerations
from dray.api.field import FieldError, Path
from dray.api.kinds import Column, Context, Kind, Object, Version
from dray.api.strategies import Subdomain, immutable

_SCHEDULING: Final = Path("scheduling")


def _default(obj: Object) -> None:
    overhead = obj.get("overhead") or {}
    if overhead.get("podFixed"):
        overhead["podFixed"] = quantities.rounded(overhead["podFixed"])


class RuntimeClassRules(Subdomain):
    create_on_update = True
    unconditional_update = False

    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        handler, path = obj.get("handler", ""), Path("handler")
        found = checks.dns_label(handler, path) if handler else [field.required(path)]
        if (overhead := obj.get("overhead")) is not None:
            found += check_requirements({"limits": overhead.get("podFixed")}, Path("overhead"), claims=())
        if (scheduling := obj.get("scheduling")) is not None:
            found += checks.labels(scheduling.get("nodeSelector"), _SCHEDULING.child("nodeSelector"))
            tolerations = scheduling.get("tolerations") or ()
            found += _check_tolerations(tolerations, _SCHEDULING.child("tolerations"), ctx)
        return found

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        return immutable(new.get("handler", ""), old.get("handler", ""), Path("handler"))


def _check_tolerations(tolerations: Sequence[Any], path: Path, ctx: Context) -> list[FieldError]:
    found = check_tolerations(tolerations, path, Options(gates=ctx.gates))
    seen: set[tuple[str, ...]] = set()
    for i, toleration in enumerate(tolerations):
        identity = tuple(toleration.get(part, "") for part in ("key", "operator", "value", "effect"))
        if identity in seen:
            found.append(field.duplicate(path.index(i), internal.render("core/v1.Toleration", toleration)))
        seen.add(identity)
    return found


RUNTIME_CLASS = Kind(
    group="node.k8s.io",
    kind="RuntimeClass",
    plural="runtimeclasses",
    namespaced=False,
    versions=(Version(name="v1", type="node/v1.RuntimeClass", default=_default),),
    storage="v1",
    rules=RuntimeClassRules(),
    printer=printing.printer(
        (printing.NAME, Column("Handler", description="What nodes call this way."), printing.AGE),
        lambda obj, now: (printing.name(obj), obj.get("handler", ""), printing.age(obj, now)),
    ),
)
KINDS = (RUNTIME_CLASS,)
