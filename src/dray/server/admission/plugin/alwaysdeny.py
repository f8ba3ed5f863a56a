"""AlwaysDeny: every write is refused."""

from __future__ import annotations

from dray.server.admission import Attributes, RequestScope


class AlwaysDeny:
    name = "AlwaysDeny"

    def handles(self, scope: RequestScope) -> bool:
        return True

    async def admit(self, attributes: Attributes) -> None:
        raise attributes.forbidden("admission control is denying all modifications")

    async def validate(self, attributes: Attributes) -> None:
        raise attributes.forbidden("admission control is denying all modifications")
