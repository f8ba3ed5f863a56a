"""Every path and verb of discovery, asked by those who may nothing: nothing leaks, and nothing breaks."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.kubectl import Kubectl

MARK = "t0p-s3cret-m4rk"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW")
#: Open to everybody, and what there is to see there is meant to be seen.
PUBLIC = {"/healthz", "/livez", "/readyz", "/version", "/version/"}
#: Open to everybody with a name.
DISCOVERY = ("/api", "/apis", "/openapi")
OTHERS = (
    "/", "/metrics", "/metrics/slis", "/healthz/etcd", "/livez/ping", "/readyz/poststarthook", "/logs", "/logs/",
    "/debug/pprof/", "/debug/flags/v", "/flagz", "/statusz", "/configz", "/swagger.json", "/swaggerapi",
    "/.well-known/openid-configuration", "/openid/v1/jwks", "/api/v2", "/apis/none", "/apis/none/v1", "/apis/apps/v9",
    "/api/v1/nothings", "/api/v1/namespaces/default/nothings/x", "/api/v1/namespaces/none/secrets",
    "/api/v1/../v1/secrets", "//api/v1/secrets", "/api/v1/watch/secrets", "/api/v1/proxy/nodes/node-1",
    "/api/v1/namespaces/kube-system/secrets/%2e%2e", "/API/V1/secrets", "/api/v1/secrets?watch=1&timeoutSeconds=1",
    "/api/v1/secrets?limit=-1", "/api/v1/secrets?fieldSelector=%%%", "/api/v1/secrets?resourceVersion=x",
)  # fmt: skip


class Caller:
    """One connection, kept, and one token."""

    def __init__(self, cluster: Kubectl, token: str) -> None:
        self._address = urlsplit(cluster.server.url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = self._open()

    def _open(self) -> http.client.HTTPSConnection:
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(self._address.hostname or "", self._address.port, context=context)

    def ask(self, method: str, path: str) -> tuple[int, bytes]:
        body = b"{}" if method in ("POST", "PUT", "PATCH") else None
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        self._connection.request(method, path, body, {**self._headers, "Content-Type": kind})
        answer = self._connection.getresponse()
        found = answer.status, answer.read()
        if answer.will_close:
            self._connection.close()
        return found


def resource_paths(cluster: Kubectl) -> Iterator[str]:
    """Where everything is that discovery tells of: collections, objects and subresources."""

    def at(path: str) -> Any:
        return json.loads(cluster.kubectl("get", "--raw", path))

    groups = ["/api/v1"] + [
        f"/apis/{v['groupVersion']}" for g in at("/apis")["groups"] for v in g["versions"]
    ]
    for base in groups:
        yield base
        for resource in at(base)["resources"]:
            plural, _, subresource = resource["name"].partition("/")
            places = [f"{base}/namespaces/default/{plural}", f"{base}/{plural}"]
            for place in places if resource["namespaced"] else places[1:]:
                if subresource:
                    yield f"{place}/{MARK}/{subresource}"
                else:
                    yield from (place, f"{place}/{MARK}", f"{place}?watch=1&timeoutSeconds=1")


@pytest.fixture(scope="module")
def paths(cluster: Kubectl) -> list[str]:
    for namespace in ("default", "kube-system"):
        cluster.kubectl("-n", namespace, "create", "secret", "generic", MARK, f"--from-literal={MARK}={MARK}")
        cluster.kubectl("-n", namespace, "create", "configmap", MARK, f"--from-literal={MARK}={MARK}")
    found = [*resource_paths(cluster), *DISCOVERY, "/openapi/v2", "/openapi/v3", *PUBLIC, *OTHERS]
    assert len(found) > 300
    return list(dict.fromkeys(found))


def leak(path: str, said: bytes) -> bool:
    """Whether an answer tells of an object more than its name, and that only to who named it."""
    text = said.decode(errors="replace")
    return MARK in text.replace(f'\\"{MARK}\\"', "").replace(f'"name":"{MARK}"', "") or (
        MARK in text and MARK not in path
    )


@pytest.mark.parametrize("who", ["nobody", "liar", "account"])
def test_those_without_rights_get_refusals_and_nothing_else(
    cluster: Kubectl, paths: list[str], who: str
) -> None:
    token = {"nobody": "", "liar": "wrong"}.get(who)
    if token is None:
        cluster.kubectl("create", "serviceaccount", "nothing")
        token = cluster.kubectl("create", "token", "nothing").strip()
    caller = Caller(cluster, token)
    allowed = []
    for path in paths:
        plain = path.partition("?")[0]
        for method in METHODS:
            code, said = caller.ask(method, path)
            where = f"{who}: {method} {path}: {code} {said[:300]!r}"
            assert code < 500, where
            assert not leak(path, said), where
            if code < 300:
                allowed.append((method, plain))
            elif who != "account":  # who has a name may learn that a path does not exist
                assert code == {"liar": 401, "nobody": 403}[who], where
    if who == "liar":
        assert allowed == []
        return
    for method, path in allowed:
        known = path in PUBLIC or (
            who == "account"
            and (
                path.startswith(("/openapi", "/.well-known/openid", "/openid"))
                or path in ("/api", "/apis", "/api/v1")
                or (path.startswith("/apis/") and path.count("/") <= 3)
                or (method == "POST" and path.rpartition("/")[2].startswith("selfsubject"))
            )
        )
        assert known, f"{who} may {method} {path}"


def test_the_administrator_breaks_nothing_on_the_same_paths(cluster: Kubectl, paths: list[str]) -> None:
    """Reading only, and malformed writes: what is refused elsewhere is not merely hidden here."""
    caller = Caller(cluster, cluster.server.token)
    for path in [path for path in paths if "watch" not in path]:
        for method in ("GET", "HEAD", "OPTIONS", "BREW", "POST"):
            if method == "POST" and path.endswith(("/bindings", "/binding")):
                continue  # a binding without a target is a 500 upstream, and so it is here
            code, said = caller.ask(method, path)
            assert code < 500 or code in (501, 503), f"{method} {path}: {code} {said[:300]!r}"
