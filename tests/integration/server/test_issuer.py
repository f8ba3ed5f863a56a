"""The issuer of service accounts' tokens, as others see it who verify tokens by themselves."""

from __future__ import annotations

from pathlib import Path

import jwt

from tests.support.tls_server import reached

ISSUER = "https://api.example.com:6443"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts"


async def test_tokens_can_be_verified_from_what_the_server_publishes(tmp_path: Path):
    async with reached(tmp_path, account_issuer=ISSUER) as api:
        await api.call("POST", ACCOUNT, json={"metadata": {"name": "bot"}})
        _, made = await api.call("POST", f"{ACCOUNT}/bot/token", json={"spec": {}})
        token = made["status"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        status, about = await api.call("GET", "/.well-known/openid-configuration", headers=headers)
        assert (status, about["issuer"]) == (200, ISSUER)
        _, raw = await api.call("GET", about["jwks_uri"].removeprefix(api.server.url), headers=headers)
        keys = jwt.PyJWKSet.from_json(raw.decode())
        algorithms = about["id_token_signing_alg_values_supported"]
        claims = jwt.decode(token, keys.keys[0].key, algorithms=algorithms, audience=ISSUER, issuer=ISSUER)
        assert claims["sub"] == "system:serviceaccount:default:bot"
