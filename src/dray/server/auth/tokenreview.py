"""TokenReview: which user a token authenticates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dray.api.errors import BadRequest
from dray.server.apiserver import APIServer
from dray.server.auth.authenticator.bearertoken import BearerTokens
from dray.server.auth.subjectaccessreview import read_review
from dray.server.endpoints.call import Call
from dray.server.endpoints.responses import Response

if TYPE_CHECKING:
    from dray.api.types.authentication import TokenReview, TokenReviewSpec, TokenReviewStatus


def install(api: APIServer, tokens: BearerTokens) -> None:
    async def review(call: Call) -> Response:
        return await _token_review(call, tokens)

    api.handlers.register("authentication.k8s.io", "tokenreviews", "", {"create": review})


def _check(review: TokenReview) -> None:
    if not (review.get("spec") or {}).get("token"):
        raise BadRequest("token is required for TokenReview in authentication")


async def _token_review(call: Call, tokens: BearerTokens) -> Response:
    review = await read_review(call, _check)
    spec: TokenReviewSpec = review["spec"]
    found = tokens.read(spec["token"], tuple(spec.get("audiences") or ()) or tokens.audiences)
    status: TokenReviewStatus
    if isinstance(found, str):
        status = {"user": {}, "error": found}
    else:
        user: Any = found.user.document()
        status = {"authenticated": True, "user": user}
        if found.audiences:
            status["audiences"] = list(found.audiences)
    review["status"] = status
    return Response(201, call.codec.object(review))
