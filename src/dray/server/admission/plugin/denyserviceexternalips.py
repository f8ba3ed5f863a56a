"""DenyServiceExternalIPs: external addresses of services can be kept and given up, but not added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope

if TYPE_CHECKING:
    from dray.api.types.core import Service


class DenyServiceExternalIPs:
    name = "DenyServiceExternalIPs"

    def handles(self, scope: RequestScope) -> bool:
        return scope.is_for("", "services") and scope.operation in (CREATE, UPDATE)

    async def validate(self, attributes: Attributes) -> None:
        service: Service = attributes.object
        stored: Service | None = attributes.old
        new, old = service.get("spec", {}), (stored or {}).get("spec", {})
        if not set(new.get("externalIPs") or ()) <= set(old.get("externalIPs") or ()):
            raise attributes.forbidden("Use of external IPs is denied by admission control")
