"""``dray up`` under attack over the network: it answers its health check in time and its memory stays bounded all the while.

The attacks are played as they were found: by clients without credentials, by accounts without rights and by users of one
namespace. What nodes, drivers and containers try is tested where they are (``tests/unit/node``, ``tests/unit/app``,
``tests/integration/runtimes``).
"""

from __future__ import annotations

import asyncio
import itertools
import json
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dray.api.openapi import protobuf
from dray.wire import websocket
from tests.support.attacker import Attacker
from tests.support.process import DrayProcess, dray_process
from tests.support.wait import wait_for
from tests.support.watchdog import Watchdog, resident

#: They share one cluster, so that one worker plays all of them.
pytestmark = pytest.mark.xdist_group("attacks")

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEW = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PODS = "/api/v1/namespaces/default/pods"
RESOURCES = "/apis/resource.k8s.io/v1/namespaces/default"
CONTAINER = {"name": "c", "image": "i", "resources": {"claims": [{"name": "c"}]}}
APPLY = "application/apply-patch+yaml"
_EDIT = {
    "metadata": {"name": "tenant"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"kind": "User", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"}],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    data: Path = tmp_path_factory.mktemp("attacked")
    tokens = data / "tokens.csv"
    tokens.write_text("nobody,nobody,1\ntenant,tenant,2\n")
    with dray_process(data, "up", "--nodes", "1", "--token-auth-file", str(tokens)) as server:
        bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
        server.request("POST", bindings, _EDIT)
        yield server


@pytest.fixture
def watched(cluster: DrayProcess) -> Iterator[DrayProcess]:
    with Watchdog(cluster) as dog:
        yield cluster
    print(f"longest {dog.longest:.3f} s, {dog.peak >> 20} MB")


# -- bytes -----------------------------------------------------------------------------------------------------------


async def test_many_pipelined_requests_before_an_unknown_method(watched: DrayProcess):
    it = Attacker(watched)
    async with it.wire() as wire:
        await wire.send(it.request("GET", "/version") * 900 + it.request("FROBNICATE", "/version"))
        codes = [(await wire.answer())[0] for _ in range(901)]
    assert codes[:900] == [200] * 900
    assert codes[900] in (401, 403, 405)


async def test_a_body_behind_an_unknown_method_is_no_request(watched: DrayProcess):
    """It begins a segment, and says what could be a request of its own."""
    it = Attacker(watched, watched.token)
    smuggled = it.request("POST", MAPS, {"metadata": {"name": "smuggled"}})
    async with it.wire() as wire:
        for _ in range(50):
            await wire.send(it.head("FROBNICATE", "/version", f"Content-Length: {len(smuggled)}"))
            await wire.send(smuggled)
            assert (await wire.answer())[0] == 200  # whoever may do anything may do that
    assert (await it.call("GET", f"{MAPS}/smuggled"))[0] == 404


async def test_trailers_are_no_headers(watched: DrayProcess):
    it = Attacker(watched)
    review = json.dumps(REVIEW).encode()
    trailers = (
        f"Authorization: Bearer {watched.token}\r\nImpersonate-User: tenant\r\n".encode(),
        b"A: " + b"x" * (1 << 20) + b"\r\n",
        b"A: b\r\n" * 100_000,
    )
    for trailer in trailers:
        async with it.wire() as wire:
            head = it.head("POST", REVIEWS, "Transfer-Encoding: chunked", "Content-Type: application/json")
            await wire.send(head + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(review), review, trailer))
            assert (await wire.answer())[0] in (400, 401, 403, 413, 431)


async def test_a_header_without_end(watched: DrayProcess):
    it = Attacker(watched)
    async with it.wire() as wire:
        await wire.send(b"GET / HTTP/1.1\r\nA: ")
        for _ in range(64):
            if not await wire.send(b"x" * (1 << 20)):
                break
        else:
            raise AssertionError("64 MB of one header were taken")


@pytest.mark.parametrize("token", ["", "tenant"])
async def test_bodies_that_never_end(watched: DrayProcess, token: str):
    it = Attacker(watched, token)
    head = it.head("POST", MAPS, "Content-Length: 3000000", "Content-Type: application/json")
    wires = [await it.connect() for _ in range(300)]
    await asyncio.gather(*(wire.send(head + b"x" * 2_900_000) for wire in wires))
    for wire in wires:
        wire.close()


async def test_bodies_that_come_slowly_take_no_places_of_others(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    head = it.head("POST", MAPS, "Content-Length: 1000", "Content-Type: application/json")
    wires = [await it.connect() for _ in range(220)]
    for wire in wires:
        await wire.send(head + b"{")
    for token in ("tenant", "nobody"):
        answer = await Attacker(watched, token).call("POST", REVIEWS, REVIEW)
        assert answer[0] == 201, answer
    for wire in wires:
        wire.close()


async def test_lists_that_wait_take_no_places_of_others(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    wires = [await it.connect() for _ in range(420)]
    for wire in wires:
        await wire.send(it.request("GET", f"{MAPS}?resourceVersion=999999999"))
    for token in ("nobody", watched.token):
        answer = await Attacker(watched, token).call("POST", REVIEWS, REVIEW)
        assert answer[0] == 201, answer
    for wire in wires:
        wire.close()


async def test_hundreds_of_watches_that_nobody_reads(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    wires = [await it.connect() for _ in range(400)]
    for wire in wires:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(it.request("GET", f"{MAPS}?watch=1"))
    for i in range(20):
        assert (await it.call("POST", MAPS, {"metadata": {"name": f"w{i}"}, "data": {"a": "x" * 10_000}}))[
            0
        ] == 201
    for i in range(20):
        assert (await it.call("DELETE", f"{MAPS}/w{i}"))[0] == 200
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("text", ["1" * 200_000, "0s" * 100_000, "1" * 200_000 + "s", "." * 200_000])
async def test_a_time_limit_without_end(watched: DrayProcess, text: str):
    """It is read before the caller is known."""
    code, said = await Attacker(watched).call("GET", f"/version?timeout={text}")
    assert code == 400, said[:200]


async def test_paths_that_nothing_is_served_under_leave_no_metrics(watched: DrayProcess):
    it = Attacker(watched)
    async with it.wire() as wire:
        for i in range(400):
            await wire.send(it.request("GET", f"/apis/{i}{'x' * 200_000}/v1/things"))
            assert (await wire.answer())[0] in (401, 403)
    code, text = await Attacker(watched, watched.token).call("GET", "/metrics")
    assert code == 200
    assert len(text) < 1 << 20


async def test_names_of_headers_are_not_kept(watched: DrayProcess):
    it = Attacker(watched)
    async with it.wire() as wire:
        for i in range(100):
            await wire.send(it.request("GET", "/version", b"", "", f"{'x' * 250_000}{i}: a"))
            assert (await wire.answer())[0] == 200


# -- documents -------------------------------------------------------------------------------------------------------

BOMBS = {
    "lists": b"a: " + b"[" * 30_000,
    "mappings": b"{a: " * 30_000,
    "merges": b"a0: &a0 {x: 1}\n"
    + b"".join(b"a%d: &a%d {<<: [*a%d,*a%d]}\n" % (n, n, n - 1, n - 1) for n in range(1, 60)),
    "aliased text": b"a: &a " + b"x" * (1 << 20) + b"\nb: [" + b"*a," * 1000 + b"]",
    "a megabyte": b"".join(b"- {a: 1, b: [x, y, 'z']}\n" for _ in range(40_000)),
}


@pytest.mark.parametrize("bomb", BOMBS)
async def test_yaml(watched: DrayProcess, bomb: str):
    it = Attacker(watched, "nobody")
    assert (await it.call("POST", REVIEWS, BOMBS[bomb], "application/yaml"))[0] == 400
    it = Attacker(watched, "tenant")
    assert (await it.call("PATCH", f"{MAPS}/a?fieldManager=x", BOMBS[bomb], APPLY))[0] == 400


def _claims() -> Any:
    requests = [{"name": f"r{i}", "exactly": {"deviceClassName": "x"}} for i in range(50_000)]
    return {"metadata": {"name": "x"}, "spec": {"devices": {"requests": requests}}}


def _pods() -> Any:
    container = {"name": "c", "image": "i", "env": [{"name": f"V{i}", "value": "v"} for i in range(10)]}
    containers = [{**container, "name": f"c{i}"} for i in range(6_000)]
    return {"metadata": {"name": "x"}, "spec": {"containers": containers}}


LARGE = {
    "data": (MAPS, {"metadata": {"name": "x"}, "data": {f"key-{i}": "v" for i in range(150_000)}}),
    "unknown lists": (MAPS, {"metadata": {"name": "x"}, "a": [{"b": [1, "c"]}] * 150_000}),
    "requests": (f"{RESOURCES}/resourceclaims", _claims()),
    "containers": (PODS, _pods()),
}


@pytest.mark.parametrize("name", LARGE)
async def test_json_of_three_megabytes(watched: DrayProcess, name: str):
    it, (path, document) = Attacker(watched, "tenant"), LARGE[name]
    body = json.dumps(document, separators=(",", ":")).encode()
    assert len(body) < 3 << 20
    code, said = await it.call("POST", f"{path}?dryRun=All", body)
    assert code in (201, 400, 413, 422), said[:500]
    for kind in ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"):
        code, said = await it.call(
            "PATCH", f"{path}/y?fieldManager=x&dryRun=All", body, f"application/{kind}"
        )
        assert code in (200, 201, 400, 404, 413, 422), (kind, said[:500])


async def test_large_objects_are_shown_in_every_form(watched: DrayProcess):
    it, accepts = (
        Attacker(watched, "tenant"),
        ("application/yaml", TABLE, "application/vnd.kubernetes.protobuf"),
    )
    names = [f"large-{i}" for i in range(3)]
    for name in names:
        document = {"metadata": {"name": name}, "data": {f"k{i}": "v" for i in range(24_000)}}
        assert (await it.call("POST", MAPS, document))[0] == 201
    for path, accept in itertools.product((MAPS, f"{MAPS}/{names[0]}"), accepts):
        async with it.wire() as wire:
            await wire.send(it.request("GET", path, b"", "", f"Accept: {accept}"))
            assert (await wire.answer())[0] == 200
    for name in names:
        assert (await it.call("DELETE", f"{MAPS}/{name}"))[0] == 200


ENDLESS = ("0" * 100_000 + "!", "1" * 100_000, "1" * 100_000 + "s", "0s" * 100_000, "1." * 100_000)


@pytest.mark.parametrize("text", ENDLESS, ids=lambda text: text[:2] + text[-1:])
async def test_amounts_and_durations_without_end(watched: DrayProcess, text: str):
    it = Attacker(watched, "tenant")
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": text}}}
    pod = {"metadata": {"name": "endless"}, "spec": {"containers": [container]}}
    code, said = await it.call("POST", f"{PODS}?dryRun=All", pod)
    assert code == 400, said[:300]
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    cron = {"schedule": f"@every {text}", "jobTemplate": {"spec": {"template": template}}}
    path = "/apis/batch/v1/namespaces/default/cronjobs?dryRun=All"
    code, said = await it.call("POST", path, {"metadata": {"name": "endless"}, "spec": cron})
    assert code == 422, said[:300]


async def test_thousands_of_owners(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}"} for i in range(20_000)]
    owned = {"metadata": {"name": "owned", "ownerReferences": owners}}
    code, said = await it.call("POST", MAPS, owned)
    assert code == 413, said[:300]  # with its managed fields it is larger than what is stored
    owned["metadata"]["ownerReferences"] = owners[:9_000]
    assert (await it.call("POST", MAPS, owned))[0] == 201

    async def is_collected() -> bool:
        return (await it.call("GET", f"{MAPS}/owned"))[0] == 404

    await wait_for("the object without owners to go", is_collected)


async def test_selectors(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    async with it.wire() as wire:
        for i in range(40):
            await wire.send(it.request("GET", f"{MAPS}?labelSelector=a%20in%20({i}{',x' * 120_000})"))
            assert (await wire.answer())[0] in (200, 400)
        for what in ("labelSelector", "fieldSelector"):
            await wire.send(it.request("GET", f"{MAPS}?{what}={'%3D!' * 60_000}"))
            assert (await wire.answer())[0] == 400


async def test_a_patch_with_a_huge_path(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    assert (await it.call("POST", MAPS, {"metadata": {"name": "patched"}}))[0] in (201, 409)
    paths = ["/" * 500_000, "/data" + "/x" * 500_000, "/data/" + "~" * 500_000, "/data/" + "~01" * 300_000]
    for path, operation in itertools.product(paths, ("add", "test", "move")):
        patch = [{"op": operation, "path": path, "from": path, "value": "x"}]
        code, said = await it.call("PATCH", f"{MAPS}/patched", patch, "application/json-patch+json")
        assert code in (400, 413, 422), said[:200]
    patch = [{"op": "copy", "path": f"/data/{i}", "from": "/metadata"} for i in range(9_000)]
    code, said = await it.call("PATCH", f"{MAPS}/patched", patch, "application/json-patch+json")
    assert code in (400, 413, 422), said[:200]


async def test_more_warnings_than_a_head_has_room_for(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    fields = b",".join(b'"f%d":1' % i for i in range(150_000))
    body = b'{"metadata":{"name":"w"},' + fields + b"}"
    assert (await it.call("POST", f"{MAPS}?dryRun=All&fieldValidation=Warn", body))[0] == 201


ODD = {
    "a managed field": {"metadata": {"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "a/b/c", "fieldsType": "FieldsV1", "fieldsV1": {"k:[]": {}, "v:": 1, "": None}}]}},
    "an owner": {"metadata": {"ownerReferences": [{"apiVersion": "a/b/c", "kind": "", "name": [], "uid": {}}]}},
    "a deep managed field": {"metadata": {"managedFields": [{"manager": "m", "fieldsV1": json.loads('{"f:a":' * 150 + "{}" + "}" * 150)}]}},
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
async def test_odd_metadata_is_taken_or_refused(watched: DrayProcess, name: str):
    it, odd = Attacker(watched, "tenant"), ODD[name]
    odd["metadata"]["name"] = "odd"
    await it.call("POST", MAPS, {"metadata": {"name": "odd"}})
    apply = {**odd, "apiVersion": "v1", "kind": "ConfigMap"}
    for method, path, body, kind in (
        ("POST", MAPS, odd, "application/json"),
        ("PUT", f"{MAPS}/odd", odd, "application/json"),
        ("PATCH", f"{MAPS}/odd", odd, "application/merge-patch+json"),
        ("PATCH", f"{MAPS}/odd", odd, "application/strategic-merge-patch+json"),
        ("PATCH", f"{MAPS}/odd?fieldManager=x&force=true", apply, APPLY),
    ):
        code, said = await it.call(method, path, body, kind)
        # Upstream answers a few mistakes of clients with a 500 that gives no reason.
        assert code < 500 or b'"reason"' not in said, (method, kind, said[:300])


async def test_odd_scalars_of_yaml_are_taken_or_refused(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    scalars = ("!!bool x", "!!int x", "!!float x", "!!timestamp x", "!!binary =", "!!null x", "!!set {a}", "0x" + "f" * 100_000, "1" * 100_000, "1:" * 50_000 + "1", "0o8", "!<!> x")  # fmt: skip
    for scalar in scalars:
        text = f"metadata: {{name: scalar}}\ndata: {{a: {scalar}}}\n".encode()
        code, said = await it.call("POST", f"{MAPS}?dryRun=All", text, "application/yaml")
        assert code in (201, 400, 422), (scalar[:20], said[:300])


async def test_claims_of_odd_names_in_a_pod_are_refused(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    for name in ("", "../..", "x" * 300, "a\x00", 7, None, {"a": 1}):
        claims = [
            {"name": name, "resourceClaimName": name},
            {"name": name, "resourceClaimTemplateName": name},
        ]
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": name, "request": name}]}}
        spec = {"containers": [container], "resourceClaims": claims}
        code, said = await it.call("POST", PODS, {"metadata": {"name": "odd"}, "spec": spec})
        assert code in (400, 422), (name, said[:300])


async def test_pings_without_end_over_a_watch_that_is_not_read(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: eA==",
    )
    ping = websocket.frame(websocket.PING, b"x" * 125, masked=True)
    async with it.wire() as wire:
        await wire.send(it.head("GET", f"{MAPS}?watch=1", *upgrade))
        assert b" 101 " in await wire.reader.readuntil(b"\r\n\r\n")
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        before = resident(watched.process.pid)
        for _ in range(50):
            if not await wire.send(ping * ((1 << 20) // len(ping))):
                break
        assert resident(watched.process.pid) - before < 20 << 20


async def test_many_write_the_same_device_into_their_claims(watched: DrayProcess):
    """As schedulers that are active at the same time do: devices, then claims that get their finalizer afterwards."""
    admin = Attacker(watched, watched.token)
    claims, at = f"{RESOURCES}/resourceclaims", "resource.kubernetes.io/delete-protection"
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
    found = {"driver": "d.example.com", "pool": "p", "request": "r"}
    names = [f"race-{i}" for i in range(40)]
    for name in names:
        early = {"finalizers": [at]} if int(name[5:]) % 2 else {}
        body = {"metadata": {"name": name, **early}, "spec": {"devices": {"requests": [request]}}}
        assert (await admin.call("POST", claims, body))[0] == 201

    async def book(name: str) -> None:
        for device in range(8):
            given = {"devices": {"results": [{**found, "device": f"gpu-{device}"}]}}
            body = {"status": {"allocation": given}}
            code, said = await admin.call(
                "PATCH", f"{claims}/{name}/status", body, "application/merge-patch+json"
            )
            assert code in (200, 409, 422), said[:300]
            if code == 200:
                break
        await admin.call(
            "PATCH", f"{claims}/{name}", {"metadata": {"finalizers": [at]}}, "application/merge-patch+json"
        )

    await asyncio.gather(*map(book, names))
    held: list[str] = []
    for item in json.loads((await admin.call("GET", claims))[1])["items"]:
        if item["metadata"]["name"] in names and at in item["metadata"].get("finalizers", ()):
            results = item.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            held += [result["device"] for result in results]
    for name in names:
        path = f"{claims}/{name}"
        await admin.call("PATCH", f"{path}/status", {"status": None}, "application/merge-patch+json")
        await admin.call("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        await admin.call("DELETE", path)
    # A claim whose finalizer came too late has a device that does not count.
    assert held and len(held) == len(set(held)), held


async def test_tokens_that_are_deep_or_no_tokens_at_all(watched: DrayProcess):
    for payload in (
        b"[" * 60_000,
        b'{"iss":"https://kubernetes.default.svc","a":' + b"[" * 60_000,
        b'{"iss":1}',
    ):
        parts = (b'{"alg":"ES256"}', payload, b"x" * 64)
        token = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts).decode()
        assert (await Attacker(watched, token).call("GET", "/api"))[0] == 401


async def test_long_selectors_of_a_pod_that_is_scheduled(watched: DrayProcess):
    it = Attacker(watched, "tenant")
    terms = " && ".join(
        f'device.attributes["gpu.example.com"].?x{i}.orValue("") != "{i}"' for i in range(130)
    )
    selectors = [{"cel": {"expression": f'"{i}" != "" && {terms}'}} for i in range(12)]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "selectors": selectors}}
    claim = {"metadata": {"name": "long"}, "spec": {"devices": {"requests": [request]}}}
    assert (await it.call("POST", f"{RESOURCES}/resourceclaims", claim))[0] == 201
    spec = {"containers": [CONTAINER], "resourceClaims": [{"name": "c", "resourceClaimName": "long"}]}
    assert (await it.call("POST", PODS, {"metadata": {"name": "long"}, "spec": spec}))[0] == 201

    async def is_scheduled() -> bool:
        return b'"nodeName"' in (await it.call("GET", f"{PODS}/long"))[1]

    await wait_for("the pod to be scheduled", is_scheduled)
    assert (await it.call("DELETE", f"{PODS}/long?gracePeriodSeconds=0"))[0] == 200


async def test_defaults_and_patterns_of_custom_resources_multiply(watched: DrayProcess):
    """Each of many small items gets a large default; each of many patterns reads a long text."""
    admin, it = Attacker(watched, watched.token), "/apis/attack.example.com/v1/namespaces/default/bombs"
    item = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 100_000}}}
    patterns = {"allOf": [{"pattern": f"^(a|b{i})*c?$"} for i in range(300)], "type": "string"}
    spec = {"type": "object", "properties": {"items": {"type": "array", "items": item}, "text": patterns}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "bombs", "singular": "bomb", "kind": "Bomb", "listKind": "BombList"}
    crd = {"group": "attack.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"metadata": {"name": "bombs.attack.example.com"}, "spec": crd}
    assert (await admin.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body))[
        0
    ] == 201

    async def is_served() -> bool:
        return (await admin.call("GET", it))[0] == 200

    await wait_for("the custom resource to be served", is_served)
    head = {"apiVersion": "attack.example.com/v1", "kind": "Bomb", "metadata": {"name": "b"}}
    code, said = await admin.call("POST", it, {**head, "spec": {"items": [{}] * 20_000}})
    assert code in (400, 413, 422), said[:300]
    code, said = await admin.call("POST", it, {**head, "spec": {"text": "a" * 1_000_000}})
    assert code in (201, 400, 413, 422), said[:300]


async def test_nothing_is_kept_of_long_names_in_refused_requests(watched: DrayProcess):
    """Of resources, namespaces and users to act as: what was decided about them is remembered only if they are short."""
    it, name = Attacker(watched, "nobody"), "x" * 230_000
    requests = [
        *(it.request("GET", f"/apis/g/v1/{i}{name}") for i in range(150)),
        *(it.request("GET", f"/api/v1/namespaces/{i}{name}/pods") for i in range(150)),
        *(it.request("GET", "/api/v1/pods", b"", "", f"Impersonate-User: {i}{name}") for i in range(150)),
    ]
    before = resident(watched.process.pid)
    async with it.wire() as wire:
        for request in requests:
            await wire.send(request)
            assert (await wire.answer())[0] == 403
    assert resident(watched.process.pid) - before < 30 << 20  # of a hundred megabytes


async def test_openapi_of_everything_and_of_definitions_without_end(watched: DrayProcess):
    """The documents of all kinds are made when they are asked for, and again when a definition changes."""
    admin, it = Attacker(watched, watched.token), Attacker(watched, "nobody")
    deep: Any = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    wide = {f"p{i}": {"type": "string", "enum": ["a", "b"], "description": "d" * 200} for i in range(3_000)}
    version = {"name": "v1", "served": True, "storage": True}
    schema = {"type": "object", "properties": {"deep": deep, "wide": {"type": "object", "properties": wide}}}
    versions = [{**version, "schema": {"openAPIV3Schema": schema}}]
    names = {"plural": "pages", "singular": "page", "kind": "Page", "listKind": "PageList"}
    spec = {"group": "pages.example.com", "scope": "Namespaced", "names": names, "versions": versions}
    crd = {"metadata": {"name": "pages.pages.example.com"}, "spec": spec}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await admin.call("POST", definitions, crd))[0] == 201

    async def is_served() -> bool:
        return (await admin.call("GET", "/apis/pages.example.com/v1"))[0] == 200

    await wait_for("the custom resource to be served", is_served)
    for path in ("/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/pages.example.com/v1"):
        assert (await it.call("GET", path))[0] == 200
    async with it.wire() as wire:
        await wire.send(it.request("GET", "/openapi/v2", b"", "", f"Accept: {protobuf.MEDIA_TYPE}"))
        assert (await wire.answer())[0] == 200
    assert (await it.call("GET", "/openapi/v3/apis/" + "x/" * 5_000))[0] == 404
    assert (await admin.call("DELETE", f"{definitions}/pages.pages.example.com"))[0] == 200


async def test_certificate_requests_that_are_none_or_name_thousands(watched: DrayProcess):
    admin = Attacker(watched, watched.token)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:n{i}") for i in range(1_000)]
    others = x509.SubjectAlternativeName([x509.DNSName(f"n{i}.example.com") for i in range(10_000)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    signed = builder.add_extension(others, critical=False).sign(key, hashes.SHA256())
    head, tail = (b"-----%s CERTIFICATE REQUEST-----\n" % word for word in (b"BEGIN", b"END"))
    requests = {
        "empty": b"",
        "no-pem": b"x" * 100_000,
        "no-asn1": head + encodebytes(b"\x30\x84\xff\xff\xff\xff" + bytes(1_000)) + tail,
        "deep": head + encodebytes(b"\x30\x80" * 200_000) + tail,
        "names": signed.public_bytes(serialization.Encoding.PEM),
    }
    signer = {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": ["client auth"]}
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    for name, data in requests.items():
        body = {"metadata": {"name": name}, "spec": {**signer, "request": b64encode(data).decode()}}
        code, said = await admin.call("POST", path, body)
        assert code == (201 if name == "names" else 422), (name, said[:300])
    found = json.loads((await admin.call("GET", f"{path}/names"))[1])
    assert "certificate" not in found["status"]
    assert (await admin.call("DELETE", f"{path}/names"))[0] == 200
