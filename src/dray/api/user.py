"""Who is asking: upstream's user.Info."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dray.api.types.authentication import UserInfo as UserInfoDocument


class UserInfo(NamedTuple):
    """Who is asking, as authentication found out."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    def document(self) -> UserInfoDocument:
        """As reviews and the audit log show a user."""
        found: UserInfoDocument = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return found


ANONYMOUS = UserInfo("system:anonymous")
