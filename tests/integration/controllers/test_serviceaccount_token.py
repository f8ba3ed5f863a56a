"""Tokens in Secrets: filled in by a controller, and good while the Secret and the account exist."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from dray.api.errors import Unauthorized
from dray.client.resources import SECRETS, SERVICE_ACCOUNTS
from dray.server.endpoints.requests import Request
from dray.wire.messages import Headers
from tests.support.controlplane import NAMESPACE, ControlPlane, control_plane
from tests.support.wait import wait_for

ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def who(a: ControlPlane, token: str) -> str:
    headers = Headers((("authorization", f"Bearer {token}"),))
    answer = await a.api.handle(Request("POST", ME, headers=headers, body={}))
    return str(answer.body["status"]["userInfo"]["username"])  # type: ignore[index]


def test_a_token_in_a_secret_is_good_while_the_secret_holds_it(tmp_path: Path):
    key = tmp_path / "pki" / "sa.key"

    async def play() -> None:
        from dray.app.pki import new_account_key

        key.parent.mkdir(parents=True)
        key.write_bytes(new_account_key())
        settings = {"serviceaccount-token-controller": {"key": key.read_text(), "ca": "PEM"}}
        names = ("serviceaccount-token-controller",)
        async with control_plane(*names, data=tmp_path, settings=settings) as a:
            await a.client.create(SERVICE_ACCOUNTS, NAMESPACE, {"metadata": {"name": "bot"}})
            for name in ("first", "second"):
                annotations = {"kubernetes.io/service-account.name": "bot"}
                metadata = {"name": name, "annotations": annotations}
                secret = {"metadata": metadata, "type": "kubernetes.io/service-account-token"}
                await a.client.create(SECRETS, NAMESPACE, secret)

            async def token(name: str) -> str:
                data = (await a.get(SECRETS, name)).get("data") or {}
                return base64.b64decode(data.get("token", "")).decode()

            first = await wait_for("the first token", lambda: token("first"))
            second = await wait_for("the second token", lambda: token("second"))
            found = await a.get(SECRETS, "first")
            assert base64.b64decode(found["data"]["ca.crt"]) == b"PEM"
            assert base64.b64decode(found["data"]["namespace"]) == b"default"
            assert await who(a, first) == "system:serviceaccount:default:bot"
            await a.client.patch(SECRETS, NAMESPACE, "first", {"data": {"other": "eA=="}})
            assert await who(a, first) == "system:serviceaccount:default:bot"
            await a.client.delete(SECRETS, NAMESPACE, "first")
            with pytest.raises(Unauthorized):
                await who(a, first)
            await a.client.delete(SERVICE_ACCOUNTS, NAMESPACE, "bot")
            await a.wait_gone(SECRETS, "second")
            with pytest.raises(Unauthorized):
                await who(a, second)

    asyncio.run(play())


def test_keys_of_clusters_that_others_made_sign_and_verify():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    from dray.server.auth.authenticator.serviceaccount_token import SigningKey

    pem = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    key = SigningKey(lambda: pem)
    assert key.verify(key.sign({"sub": "x"})) == {"sub": "x"}
    (shown,) = key.jwks()["keys"]
    assert (shown["kty"], shown["alg"], shown["e"]) == ("RSA", "RS256", "AQAB")
