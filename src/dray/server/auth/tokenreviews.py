"""Questions about whose token this is."""

from __future__ import annotations

from dray.api.errors import BadRequest
from dray.api.kinds import Object
from dray.server.api import API
from dray.server.auth.accessreviews import read_review
from dray.server.auth.tokens import BearerTokens
from dray.server.calls import Call
from dray.server.responses import Response


def install(api: API, tokens: BearerTokens) -> None:
    async def review(call: Call) -> Response:
        return await _token_review(call, tokens)

    api.verbs.action("authentication.k8s.io", "tokenreviews", "", {"create": review})


def _check(review: Object) -> None:
    if not (review.get("spec") or {}).get("token"):
        raise BadRequest("token is required for TokenReview in authentication")


async def _token_review(call: Call, tokens: BearerTokens) -> Response:
    review = await read_review(call, _check)
    spec = review["spec"]
    found = tokens.read(spec["token"], tuple(spec.get("audiences") or ()) or tokens.audiences)
    status: Object = {}
    if isinstance(found, str):
        status = {"user": {}, "error": found}
    else:
        status = {"authenticated": True, "user": found.user.document()}
        if found.audiences:
            status["audiences"] = list(found.audiences)
    review["status"] = status
    return Response(201, call.codec.object(review))
