"""ExtendedResourceToleration: pods that request an extended resource tolerate nodes that are tainted with its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from dray.api.groups.core import resourcenames
from dray.api.pods import containers
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec, Toleration

_IDENTITY: Final[tuple[Literal["key", "effect", "operator", "value"], ...]] = (
    "key",
    "effect",
    "operator",
    "value",
)


class ExtendedResourceToleration:
    name = "ExtendedResourceToleration"

    def handles(self, scope: RequestScope) -> bool:
        return scope.is_for("", "pods") and scope.operation in (CREATE, UPDATE)

    async def admit(self, attributes: Attributes) -> None:
        spec: PodSpec = attributes.object.get("spec", {})
        asked = {name for c in containers(spec) for name in c.get("resources", {}).get("requests") or ()}
        tolerations = list(spec.get("tolerations") or ())
        for name in sorted(filter(resourcenames.is_extended, asked)):
            wanted: Toleration = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            if not any(_same(toleration, wanted) for toleration in tolerations):
                tolerations.append(wanted)
        if tolerations:
            attributes.object["spec"] = {**spec, "tolerations": tolerations}


def _same(a: Toleration, b: Toleration) -> bool:
    return all(a.get(key, "") == b.get(key, "") for key in _IDENTITY)
