"""DefaultTolerationSeconds: a pod stays some minutes on a node that is not ready or unreachable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope

if TYPE_CHECKING:
    from dray.api.types.core import Pod, Toleration

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_NO_EXECUTE: Final = "NoExecute"


class DefaultTolerationSeconds:
    name = "DefaultTolerationSeconds"

    def __init__(self, *, not_ready: int = 300, unreachable: int = 300) -> None:
        defaults: tuple[Toleration, ...] = tuple(
            {"key": taint, "operator": "Exists", "effect": _NO_EXECUTE, "tolerationSeconds": seconds}
            for taint, seconds in ((NOT_READY, not_ready), (UNREACHABLE, unreachable))
        )
        self._defaults = defaults  # all pods share them

    def handles(self, scope: RequestScope) -> bool:
        return scope.is_for("", "pods") and scope.operation in (CREATE, UPDATE)

    async def admit(self, attributes: Attributes) -> None:
        pod: Pod = attributes.object
        spec = pod.get("spec", {})
        present = spec.get("tolerations") or ()
        missing = [
            default for default in self._defaults if not any(_covers(t, default["key"]) for t in present)
        ]
        if missing:
            pod["spec"] = {**spec, "tolerations": [*present, *missing]}


def _covers(toleration: Toleration, taint: str) -> bool:
    return toleration.get("key", "") in ("", taint) and toleration.get("effect", "") in ("", _NO_EXECUTE)
