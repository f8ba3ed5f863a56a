"""Reviews that only look at the request itself."""

from __future__ import annotations

from dray.api.kinds import Object, UserInfo
from dray.server.calls import Call
from dray.server.responses import Response


def user_info(user: UserInfo) -> Object:
    """A user as reviews show one."""
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


async def self_subject_review(call: Call) -> Response:
    """Who am I?"""
    return Response(
        201,
        {
            "kind": "SelfSubjectReview",
            "apiVersion": call.codec.api_version,
            "metadata": {"creationTimestamp": call.api.clock.now()},
            "status": {"userInfo": user_info(call.user)},
        },
    )
