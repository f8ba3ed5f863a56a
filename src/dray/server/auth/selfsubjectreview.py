"""SelfSubjectReview: who the caller is."""

from __future__ import annotations

from dray.server.endpoints.call import Call
from dray.server.endpoints.responses import Response


async def self_subject_review(call: Call) -> Response:
    """Who am I?"""
    return Response(
        201,
        {
            "kind": "SelfSubjectReview",
            "apiVersion": call.codec.api_version,
            "metadata": {"creationTimestamp": call.api.clock.now()},
            "status": {"userInfo": call.user.document()},
        },
    )
