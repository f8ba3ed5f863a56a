"""The API server's request. The HTTP server and the in-process transport build the same ``Request``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from dray.api.errors import BadRequest
from dray.api.golang import strconv
from dray.api.scheme.kinds import Object
from dray.api.user import UserInfo
from dray.wire import messages
from dray.wire.messages import Query

if TYPE_CHECKING:
    from dray.server.audit import AuditContext
    from dray.server.endpoints.requestinfo import RequestInfo

#: More than the characters that all warnings together may have.
_MOST_WARNINGS = 4096


def integer(query: Query, name: str) -> int | None:
    """A number in a query; None where there is none."""
    text = query.get(name)
    return parse_int64(text) if text else None


def parse_int64(text: str) -> int:
    value = strconv.parse_int64(text)
    if value is None:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": {strconv.parse_problem(text)}')
    return value


class Request(messages.Request, eq=False):
    """One call. ``body`` is bytes from the wire, or an object from an in-process caller."""

    body: bytes | Object = b""
    user: UserInfo | None = None  # set beforehand by in-process callers, else by authentication
    authenticated: bool = False  # by its credentials; not so a caller in this process
    admit: Callable[[UserInfo], None] | None = None  # refuses callers who have too many requests in flight
    yaml_problems: list[str] | None = None  # of a body that was YAML and is JSON now
    warnings: dict[str, None] = msgspec.field(default_factory=dict)  # in order, each text once
    info: RequestInfo | None = None  # what the pipeline found the request to be about
    audit_context: AuditContext | None = None  # where the request is audited

    def warn(self, text: str) -> None:
        """Tell the caller something in a Warning header; the same text is sent once."""
        if text and len(self.warnings) < _MOST_WARNINGS:
            self.warnings[text] = None
