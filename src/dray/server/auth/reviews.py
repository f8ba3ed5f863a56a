"""Reviews that only look at the request itself."""

from __future__ import annotations

from dray.api.kinds import Object
from dray.server.calls import Call
from dray.server.responses import Response


async def self_subject_review(call: Call) -> Response:
    """Who am I?"""
    user = call.user
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return Response(
        201,
        {
            "kind": "SelfSubjectReview",
            "apiVersion": call.codec.api_version,
            "metadata": {"creationTimestamp": call.api.clock.now()},
            "status": {"userInfo": info},
        },
    )
