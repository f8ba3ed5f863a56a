"""The message of a Forbidden error, in upstream's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.errors import Forbidden
from dray.server.auth.authorizer import Attributes

if TYPE_CHECKING:
    from dray.api.types.meta import StatusDetails


class AccessForbidden(Forbidden):
    """What authorization, and nothing later, said no to."""


def forbidden(attributes: Attributes, reason: str = "") -> AccessForbidden:
    user = attributes.user.name
    if not attributes.is_resource:
        message = f'forbidden: User "{user}" cannot {attributes.verb} path "{attributes.path}"'
        return AccessForbidden(f"{message}: {reason}" if reason else message, details={})
    resource = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
    qualified = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    who = f'User "{user}" cannot {attributes.verb} resource "{resource}" in API group "{attributes.group}"'
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    name = f' "{attributes.name}"' if attributes.name else ""
    message = f"{qualified}{name} is forbidden: {who} {where}"
    details: StatusDetails = {}
    if attributes.name:
        details["name"] = attributes.name
    if attributes.group:
        details["group"] = attributes.group
    details["kind"] = attributes.resource
    return AccessForbidden(f"{message}: {reason}" if reason else message, details=details)
