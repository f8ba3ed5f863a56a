"""The OpenID metadata by which others can verify service account tokens: the configuration and the public keys."""

from __future__ import annotations

from typing import Final

from dray.server.apiserver import APIServer
from dray.server.auth.authenticator.serviceaccount_token import ServiceAccountTokens
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import RawBody, Response
from dray.server.storage.codec import encode

_KEYS: Final = "/openid/v1/jwks"
_CACHED: Final = ("Cache-Control", "public, max-age=3600")


def install(api: APIServer, tokens: ServiceAccountTokens, *, address: str) -> None:
    """Serve both paths. ``address`` is where this server can be reached, HOST:PORT."""

    async def configuration(request: Request, info: RequestInfo) -> Response:
        found = {
            "issuer": tokens.issuer,
            "jwks_uri": f"https://{address}{_KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [tokens.key.algorithm],
        }
        return Response(200, RawBody(encode(found)), [_CACHED])

    async def keys(request: Request, info: RequestInfo) -> Response:
        return Response(200, RawBody(encode(tokens.key.jwks()), "application/jwk-set+json"), [_CACHED])

    api.path_handlers["/.well-known/openid-configuration"] = configuration
    api.path_handlers[_KEYS] = keys
