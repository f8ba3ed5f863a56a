"""Documents, patches and selectors from a seed: no answer is a crash, and no request holds the loop."""

from __future__ import annotations

import json
import sys
import time
from typing import Any
from urllib.parse import urlencode

import pytest

from dray.api import schema
from dray.api.schema import Struct
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responsewriter import ResponseWriter
from dray.wire.messages import Headers, Query
from tests.integration.server.test_fuzz import CLAIM, KINDS, POD
from tests.support.apiserver import ROOT, Server, make_server
from tests.support.hostile_documents import Hostile

JSON = "application/json"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
PODS = "/api/v1/namespaces/default/pods"
FROM_TEMPLATE: dict[str, Any] = {
    **POD,
    "spec": {**POD["spec"], "resourceClaims": [{"name": "r", "resourceClaimTemplateName": "t"}]},  # type: ignore[dict-item]
}
JOB_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
LONGEST = 0.1


class Attacked:
    """A server in memory, and the rule that no request crashes or holds it."""

    def __init__(self, server: Server) -> None:
        self._serve = ResponseWriter(server.api).serve

    async def send(self, method: str, path: str, body: Any = b"", type_: str = JSON, **query: str) -> int:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        for last in (False, True):
            request = Request(
                method,
                path,
                Query(urlencode(query)),
                Headers([("content-type", type_)]),
                body=data,
                user=ROOT,
            )
            started = time.thread_time()
            reply = await self._serve(request)
            took = time.thread_time() - started
            said = f"{method} {path} {query} {data[:2000]!r}\n{reply.code} {reply.body!r}"
            # Upstream answers a few mistakes of clients with a 500 that gives no reason.
            assert reply.code < 500 or (reply.code == 500 and b'"reason"' not in reply.body), said
            if took < LONGEST:  # what is slow for the first time may have loaded a module
                break
            assert not last, f"{took:.2f} s: {said}"
        return reply.code

    async def write(self, hostile: Hostile, path: str, name: str, document: Any) -> None:
        """Through every way of writing."""
        at = f"{path}/{name}{hostile.rng.choice(('', '', '/status', '/scale'))}"
        apply = {"type_": "application/apply-patch+yaml", "force": hostile.rng.choice(("true", "false"))}
        await self.send("POST", path, document, dryRun="All")
        await self.send("POST", path, hostile.yaml(document), "application/yaml")
        await self.send("PUT", at, document)
        for kind in ("merge-patch+json", "strategic-merge-patch+json"):
            await self.send("PATCH", at, document, f"application/{kind}")
        await self.send("PATCH", at, hostile.json_patch(document), "application/json-patch+json")
        await self.send("PATCH", at, document, **apply, fieldManager=hostile.rng.choice("fm"))
        await self.send("PATCH", at, hostile.yaml(document), **apply, fieldManager="f")
        selects = hostile.rng.choice(("labelSelector", "fieldSelector"))
        await self.send("GET", path, **{selects: hostile.selector()})


def types_of(server: Server) -> list[tuple[str, dict[str, str], Struct]]:
    found = []
    for resource in server.api.resources:
        kind = resource.kind
        for version in kind.versions:
            if version.type:
                api_version = f"{kind.group}/{version.name}" if kind.group else version.name
                prefix = f"/{'apis' if kind.group else 'api'}/{api_version}"
                path = f"{prefix}{'/namespaces/default' if kind.namespaced else ''}/{kind.plural}"
                typed = {"apiVersion": api_version, "kind": kind.kind}
                found.append((path, typed, schema.type_of(version.type)))
    return found


@pytest.mark.parametrize("seed", range(2))
async def test_no_document_of_any_kind_crashes_or_holds_the_server(seed: int):
    server = await make_server(served=None)
    it, hostile = Attacked(server), Hostile(seed)
    types = types_of(server)
    for _ in range(150):
        path, typed, type_ = hostile.rng.choice(types)
        document = hostile.document(type_)
        if isinstance(document, dict):
            document |= typed
        await it.write(hostile, path, "a", document)


@pytest.mark.parametrize("seed", range(2))
async def test_no_damage_to_a_sound_document_crashes_or_holds_the_server(seed: int):
    it, hostile = Attacked(await make_server(served=None)), Hostile(seed)
    await it.send("POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": CLAIM["spec"]}})
    for _ in range(120):
        path, sound = hostile.rng.choice((*KINDS, (PODS, FROM_TEMPLATE)))
        await it.send("POST", path, sound)
        document: Any = sound
        if hostile.rng.random() < 0.5:
            owned = [hostile.managed_fields() for _ in range(hostile.rng.randrange(3))]
            document = {**sound, "metadata": {**sound["metadata"], "managedFields": owned}}  # type: ignore[dict-item]
        for _ in range(hostile.rng.randrange(3)):
            document = hostile.damaged(document)
        await it.write(hostile, path, str(sound["metadata"]["name"]), document)


async def test_a_pod_without_a_name_is_refused_although_its_claims_get_names():
    it = Attacked(await make_server(served=None))
    await it.send("POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": CLAIM["spec"]}})
    assert await it.send("POST", PODS, {**FROM_TEMPLATE, "metadata": {}}) == 422


async def test_an_apply_of_nothing_to_nothing_is_refused():
    it = Attacked(await make_server())
    nothing = {"apiVersion": "v1", "kind": "ConfigMap"}
    at, media = "/api/v1/namespaces/default/configmaps/a", "application/apply-patch+yaml"
    assert await it.send("PATCH", at, nothing, media, fieldManager="f") == 400


@pytest.mark.parametrize(
    ("kind", "field"), [("ConfigMap", "binaryData"), ("Secret", "data")], ids=["ConfigMap", "Secret"]
)
async def test_bytes_that_are_null_are_empty(kind: str, field: str):
    server = await make_server()
    it = Attacked(server)
    path = f"/api/v1/namespaces/default/{kind.lower()}s"
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, field: {"none": None}}
    assert await it.send("POST", path, document) == 201
    for name in ("a", "b"):
        apply = {**document, "metadata": {"name": name}}
        media = "application/apply-patch+yaml"
        status = await it.send("PATCH", f"{path}/{name}", apply, media, fieldManager="f", force="true")
        assert status == (200 if name == "a" else 201)
        reply = await server.as_user().request("GET", f"{path}/{name}")
        assert reply.body[field] == {"none": ""}


@pytest.mark.parametrize("spec", [True, [1], "x", 5])
async def test_a_scale_that_is_no_mapping_is_refused(spec: Any):
    it = Attacked(await make_server(served=None))
    path, deployment = KINDS[-1]
    assert await it.send("POST", path, deployment) == 201
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": spec}
    assert (
        await it.send("PATCH", f"{path}/d/scale", body, "application/apply-patch+yaml", fieldManager="f")
        == 400
    )


async def test_a_deep_document_is_shown_as_yaml():
    server = await make_server(served=None)
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    deep = b'{"metadata":{"name":"a"},"revision":1,"data":' + b'{"a":' * 290 + b"1" + b"}" * 291
    assert await Attacked(server).send("POST", path, deep) == 201
    request = Request("GET", f"{path}/a", headers=Headers([("accept", "application/yaml")]), user=ROOT)
    reply = await ResponseWriter(server.api).serve(request)
    assert reply.code == 200


@pytest.mark.parametrize(
    ("text", "code"),
    [(f"a: 0x{'f' * 40}", 201), ("a: !!bool x", 400), ("a: !!int x", 400), ("a: 123456789012345678901", 400)],
)
async def test_a_scalar_that_yaml_cannot_convert_is_the_clients_fault(text: str, code: int):
    it = Attacked(await make_server())
    body = f"metadata: {{name: a}}\ndata:\n  {text}\n".encode()
    assert await it.send("POST", "/api/v1/namespaces/default/configmaps", body, "application/yaml") == code


async def test_an_object_larger_than_etcd_takes_is_refused():
    server = await make_server(served=None)
    it, path = Attacked(server), "/apis/apps/v1/namespaces/default/controllerrevisions"
    body = {"metadata": {"name": "a"}, "revision": 1, "data": {"a": "x" * 1_500_000}}
    assert await it.send("POST", path, body) == 201
    body["data"] = {"a": "x" * 1_600_000}
    assert await it.send("POST", path, {**body, "metadata": {"name": "b"}}) == 413
    note = {"metadata": {"annotations": {"a": "x" * 100_000}}}
    assert await it.send("PATCH", f"{path}/a", note, "application/merge-patch+json") == 413


async def test_what_is_stored_can_be_read_whatever_expressions_came_before():
    """A deep expression needs a deeper stack. Documents must not be let in that only such a stack can read."""
    server = await make_server(served=None)
    it, limit = Attacked(server), sys.getrecursionlimit()
    expression = {"cel": {"expression": "[" * 240 + "1" + "]" * 240 + " == []"}}
    classes = "/apis/resource.k8s.io/v1/deviceclasses"
    body = {"metadata": {"name": "deep"}, "spec": {"selectors": [expression]}}
    assert await it.send("POST", classes, body, dryRun="All") == 201
    assert sys.getrecursionlimit() == limit
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    for depth, codes in ((590, (201, 409)), (650, (400,)), (5_000, (400,)), (100_000, (400,))):
        data = b'{"a":' * depth + b"1" + b"}" * depth
        document = b'{"metadata":{"name":"d%d"},"revision":1,"data":%b}' % (depth, data)
        assert await it.send("POST", path, document) in codes, depth
    for kind in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
        request = Request("GET", f"{path}/d590", headers=Headers([("accept", kind)]), user=ROOT)
        assert (await ResponseWriter(server.api).serve(request)).code == 200, kind
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert await it.send("PATCH", f"{path}/d590", labels, "application/merge-patch+json") == 200
    applied = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, **labels}
    assert (
        await it.send("PATCH", f"{path}/d590", applied, "application/apply-patch+yaml", fieldManager="f")
        == 200
    )


NUMBERS = ("9" * 5000, "²", "-1", "9223372036854775807", "99999999999")


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:20])
async def test_numbers_that_no_number_of_go_can_hold_are_refused(number: str):
    """Digits without end, digits of other scripts, and numbers beyond what a timestamp can say."""
    it = Attacked(await make_server(served=None))
    address = {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
    await it.send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "status": address})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    assert await it.send("POST", PODS, pod) == 201
    assert await it.send("POST", PODS.replace("pods", "services"), service) == 201
    for path in (f"{PODS}/p:{number}", f"/api/v1/nodes/n:{number}"):
        assert await it.send("GET", f"{path}/proxy/x") == 400
    assert await it.send("GET", f"{PODS.replace('pods', 'services')}/s:{number}/proxy/x") == 404
    await it.send("GET", f"{PODS}/p/portforward", ports=number)
    await it.send("DELETE", f"{PODS}/p", gracePeriodSeconds=number, dryRun="All")
    policy = {"rules": [{"succeededIndexes": number}]}
    job = {"completionMode": "Indexed", "completions": 3, "successPolicy": policy, "template": JOB_TEMPLATE}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    assert await it.send("POST", jobs, {"metadata": {"name": "j"}, "spec": job}) == 422
    schedules = (f"@every {number}", f"@every {number}ss", f"{number} * * * *", f"*/{number} * * * *")
    for schedule in schedules:
        cron = {"schedule": schedule, "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}
        path = jobs.replace("jobs", "cronjobs")
        assert await it.send("POST", path, {"metadata": {"name": "c"}, "spec": cron}) in (201, 422)


@pytest.mark.parametrize(
    "text", ["0" * 3000 + "!", "+" + "1" * 3000 + ".x", "." + "0" * 3000 + "!", "1e" + "9" * 5000]
)
async def test_an_amount_without_end_is_refused_at_once(text: str):
    it = Attacked(await make_server(served=None))
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": text}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    assert await it.send("POST", PODS, pod) == 400
