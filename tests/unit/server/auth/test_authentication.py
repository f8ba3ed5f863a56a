"""Tokens, strangers and people who act as others."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from dray.api.errors import BadRequest, Forbidden, StatusError, Unauthorized
from dray.api.scheme.kinds import Object
from dray.server.endpoints.responses import Response
from tests.support.authorization import Guarded, guarded, rule

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def body(response: Response) -> Object:
    assert isinstance(response.body, dict)
    return response.body


async def token_of(server: Guarded, account: str, **spec: object) -> str:
    answer = await server.post(f"{ACCOUNTS}/{account}/token", {"spec": spec})
    return str(answer["status"]["token"])


async def test_an_account_is_known_by_its_token_until_it_is_gone(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.post(ACCOUNTS, {"metadata": {"name": "robot"}})
        token = await token_of(server, "robot")
        who = body(await server.http("POST", WHO, {}, authorization=f"Bearer {token}"))
        assert who["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
        await server.root.request("DELETE", f"{ACCOUNTS}/robot")
        await server.post(ACCOUNTS, {"metadata": {"name": "robot"}})
        with pytest.raises(Unauthorized):
            await server.http("POST", WHO, {}, authorization=f"Bearer {token}")


async def test_a_token_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.post(ACCOUNTS, {"metadata": {"name": "robot"}})
        head, claims, signature = (await token_of(server, "robot")).split(".")
        other = (await token_of(server, "robot", audiences=["else"])).split(".")
        unsigned = "eyJhbGciOiJub25lIn0"
        for bad in (
            f"{head}.{other[1]}.{signature}",
            f"{head}.{claims}.{other[2]}",
            f"{unsigned}.{claims}.",
            f"{unsigned}.{claims}.{signature}",
            ".".join(other),
        ):
            with pytest.raises(Unauthorized):
                await server.http("POST", WHO, {}, authorization=f"Bearer {bad}")


@pytest.mark.parametrize("deep", ["header", "payload", "both"])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
async def test_a_deeply_nested_token_is_refused_like_any_other(
    tmp_path: Path, deep: str, opening: str
) -> None:
    def part(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()

    nested = opening * 30_000
    issued = f'{{"iss":"https://kubernetes.default.svc","x":{nested}'
    header = part('{"alg":"ES256"}' if deep == "payload" else nested)
    claims = part('{"iss":"https://kubernetes.default.svc"}' if deep == "header" else issued)
    async with guarded(tmp_path) as server:
        with pytest.raises(Unauthorized):
            await server.http("POST", WHO, {}, authorization=f"Bearer {header}.{claims}.{part('x' * 64)}")


async def test_a_token_runs_out(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.post(ACCOUNTS, {"metadata": {"name": "robot"}})
        token = await token_of(server, "robot", expirationSeconds=600)
        now = server.api.clock.seconds()
        server.api.clock.seconds = lambda: now + 700
        with pytest.raises(Unauthorized):
            await server.http("POST", WHO, {}, authorization=f"Bearer {token}")


async def test_the_key_of_accounts_is_the_owners_alone(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.post(ACCOUNTS, {"metadata": {"name": "robot"}})
        await token_of(server, "robot")
        assert (tmp_path / "pki" / "sa.key").stat().st_mode & 0o777 == 0o600


async def test_a_bootstrap_token_is_good_while_its_secret_says_so(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        secret = {
            "metadata": {"name": "bootstrap-token-abcdef"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef",
                "token-secret": "0123456789abcdef",
                "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:workers",
            },
        }
        await server.post("/api/v1/namespaces/kube-system/secrets", secret)
        who = body(await server.http("POST", WHO, {}, authorization="Bearer abcdef.0123456789abcdef"))
        assert who["status"]["userInfo"] == {
            "username": "system:bootstrap:abcdef",
            "groups": ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"],
        }
        with pytest.raises(Unauthorized):
            await server.http("POST", WHO, {}, authorization="Bearer abcdef.0123456789abcdee")


def test_a_certificate_ends_on_an_open_connection_too(tmp_path: Path) -> None:
    import ssl

    from dray.app import pki
    from dray.server.auth.authenticator.x509 import ClientCertificates
    from dray.server.endpoints.requests import Request
    from dray.wire.messages import Peer

    keys = pki.ensure(tmp_path, [])
    der = ssl.PEM_cert_to_DER_cert(keys.leaf("admin").certificate.read_text())
    moment = [0.0]
    reader, request = ClientCertificates(lambda: moment[0]), Request("GET", "/", peer=Peer(certificate=der))
    user = reader.authenticate(request)
    assert user is not None and (user.name, user.groups) == ("kubernetes-admin", ("system:masters",))
    moment[0] = 1e12
    with pytest.raises(Unauthorized):
        reader.authenticate(request)


async def test_acting_as_another_needs_leave(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        as_admin = {"authorization": "Bearer admin"}
        who = body(await server.http("POST", WHO, {}, **as_admin, impersonate_user="dave"))
        assert who["status"]["userInfo"] == {"username": "dave", "groups": ["system:authenticated"]}
        await server.post(ACCOUNTS, {"metadata": {"name": "robot"}})
        as_robot = {"authorization": f"Bearer {await token_of(server, 'robot')}"}
        with pytest.raises(Forbidden, match="cannot impersonate-on:user-info:create"):
            await server.http("POST", WHO, {}, **as_robot, impersonate_user="dave")
        robot = "system:serviceaccount:default:robot"
        await server.grant(robot, rule("impersonate", "users", names="dave"), namespace="")
        who = body(await server.http("POST", WHO, {}, **as_robot, impersonate_user="dave"))
        assert who["status"]["userInfo"]["username"] == "dave"
        with pytest.raises(Forbidden, match='groups "system:masters" is forbidden'):
            await server.http(
                "POST", WHO, {}, **as_robot, impersonate_user="dave", impersonate_group="system:masters"
            )


async def test_impersonating_a_group_needs_a_user_name(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        with pytest.raises(BadRequest, match="without impersonating a user name"):
            await server.http("GET", "/version", authorization="Bearer admin", impersonate_group="g")


@pytest.mark.parametrize("caller", ["stranger", "liar", "nobody in particular"])
async def test_no_path_leaks_anything_to_those_without_rights(tmp_path: Path, caller: str) -> None:
    """Every resource of discovery, every verb: a refusal, and never an accident."""
    async with guarded(tmp_path) as server:
        headers = {"liar": {"authorization": "Bearer wrong"}}.get(caller, {})
        if caller == "nobody in particular":
            await server.post(ACCOUNTS, {"metadata": {"name": "robot"}})
            headers = {"authorization": f"Bearer {await token_of(server, 'robot')}"}
        for resource in server.api.resources:
            kind = resource.kind
            prefix = f"/apis/{kind.group}" if kind.group else "/api"
            folder = "/namespaces/default" if kind.namespaced else ""
            subresources = ["", *(f"/{s}" for s in (*kind.subresources, *kind.actions))]
            for version in resource.served:
                base = f"{prefix}/{version}{folder}/{kind.plural}"
                for path in (base, *(f"{base}/x{sub}" for sub in subresources)):
                    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                        if caller == "nobody in particular" and "/self" in path and method == "POST":
                            continue  # anybody may ask about themselves
                        with pytest.raises(StatusError) as refused:
                            await server.http(method, path, **headers)
                        assert refused.value.http_code == (401 if caller == "liar" else 403), (method, path)
