"""Webhooks over real TLS: what they are sent, what they may do, and what happens when they fail."""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.errors import BadRequest, InternalError
from dray.api.scheme.kinds import Object
from tests.support.admission import POLICIES, World, config_map, listen, make_world, refusal
from tests.support.webhook_server import WebhookServer, configuration, webhook

MAPS = "/api/v1/namespaces/default/configmaps"
PLUGINS = ("ValidatingAdmissionWebhook", "MutatingAdmissionWebhook")


@asynccontextmanager
async def world_with(
    directory: Path, family: str = "validating", *names: str, **hook: Any
) -> AsyncIterator[tuple[World, WebhookServer]]:
    world = await make_world(*PLUGINS)
    async with webhook(directory, *names) as server:
        await register(world, family, {"clientConfig": server.config, **hook})
        yield world, server


async def register(world: World, family: str, hook: Object, name: str = "w") -> None:
    await world.post(f"{POLICIES}/{family}webhookconfigurations", configuration(family, name, hook))


def patched(*operations: Object) -> Object:
    text = msgspec.json.encode(operations)
    return {"allowed": True, "patchType": "JSONPatch", "patch": b64encode(text).decode()}


def add(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


# -- validating


async def test_a_webhook_is_told_who_does_what_to_which_object(tmp_path: Path) -> None:
    async with world_with(tmp_path) as (world, server):
        await world.post(MAPS, config_map(a="1"), client=world.user("ann", "dev"))
        [asked] = server.requests
        assert asked["kind"] == asked["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
        assert asked["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert (asked["name"], asked["namespace"], asked["operation"]) == ("m", "default", "CREATE")
        assert asked["userInfo"] == {"username": "ann", "groups": ["dev", "system:authenticated"]}
        assert asked["object"]["data"] == {"a": "1"}
        assert (asked["oldObject"], asked["dryRun"]) == (None, False)
        assert asked["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
        await world.delete(f"{MAPS}/m")
        assert server.requests[1]["object"] is None
        assert server.requests[1]["oldObject"]["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (None, "denied the request without explanation", 400),
        ({"message": "no", "code": 403, "reason": "Forbidden"}, "denied the request: no", 403),
        ({"reason": "TooBad", "code": 200}, "denied the request: TooBad", 400),
    ],
)
async def test_a_webhook_refuses_in_its_own_words(
    tmp_path: Path, status: Object | None, message: str, code: int
) -> None:
    async with world_with(tmp_path) as (world, server):
        server.answer = lambda request: {"allowed": False, "status": status}
        error = await refusal(world.post(MAPS, config_map()))
        assert error.message == f'admission webhook "w.example.com" {message}'
        assert error.http_code == code


async def test_warnings_and_notes_are_passed_on(tmp_path: Path) -> None:
    async with world_with(tmp_path) as (world, server):
        server.answer = lambda request: {
            "allowed": True,
            "warnings": ["careful"],
            "auditAnnotations": {"k": "v"},
        }
        events = listen(world)
        assert await world.warnings(MAPS, config_map()) == "careful"
        assert events[-1]["annotations"]["w.example.com/k"] == "v"


async def test_connections_are_kept_and_a_closed_one_is_replaced(tmp_path: Path) -> None:
    async with world_with(tmp_path) as (world, server):
        for i in range(3):
            await world.post(MAPS, config_map(f"m{i}"))
        assert server.connections == 1


async def test_all_webhooks_are_asked_at_once(tmp_path: Path) -> None:
    async with world_with(tmp_path) as (world, server):
        await register(world, "validating", {"clientConfig": server.config}, "second")
        server.delay.clear()
        request = asyncio.create_task(world.post(MAPS, config_map()))
        await server.asked(2)
        server.delay.set()
        assert await request


async def test_dry_runs_go_only_to_those_without_side_effects(tmp_path: Path) -> None:
    async with world_with(tmp_path) as (world, server):
        await world.post(MAPS, config_map(), dryRun="All")
        assert server.requests[0]["dryRun"] is True
        stored = world.api.resource("admissionregistration.k8s.io", "validatingwebhookconfigurations").cache
        stored.get("w").hub["webhooks"][0]["sideEffects"] = "Some"
        error = await refusal(world.post(MAPS, config_map(), dryRun="All"))
        assert isinstance(error, BadRequest)
        assert error.message == 'admission webhook "w.example.com" does not support dry run'


async def test_conditions_and_selectors_keep_requests_away(tmp_path: Path) -> None:
    conditions = [{"name": "named", "expression": "object.metadata.name.startsWith('x')"}]
    selector = {"matchLabels": {"watched": "yes"}}
    async with world_with(tmp_path, matchConditions=conditions, objectSelector=selector) as (world, server):
        watched = config_map("x1")
        watched["metadata"]["labels"] = {"watched": "yes"}
        await world.post(MAPS, config_map("x2"))
        await world.post(MAPS, {**watched, "metadata": {**watched["metadata"], "name": "y"}})
        assert not server.requests
        await world.post(MAPS, watched)
        assert len(server.requests) == 1


async def test_webhooks_are_not_asked_about_webhooks(tmp_path: Path) -> None:
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    async with world_with(tmp_path, rules=rules) as (world, server):
        await world.delete(f"{POLICIES}/validatingwebhookconfigurations/w")
        assert not server.requests


# -- failures


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


async def test_an_unreachable_webhook_fails_the_request_or_is_passed_over(tmp_path: Path) -> None:
    async with world_with(tmp_path) as (world, _):
        url = f"https://127.0.0.1:{closed_port()}/"
        path = f"{POLICIES}/validatingwebhookconfigurations/w"
        hook = (await world.get(path))["webhooks"][0]
        hook["clientConfig"] = {"url": url}
        await world.patch(path, {"webhooks": [hook]})
        error = await refusal(world.post(MAPS, config_map()))
        assert isinstance(error, InternalError)
        assert error.message.startswith(
            'Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: '
            f'Post "{url}?timeout=10s": dial tcp 127.0.0.1'
        )
        await world.patch(path, {"webhooks": [{**hook, "failurePolicy": "Ignore"}]})
        events = listen(world)
        assert await world.post(MAPS, config_map())
        key = "failed-open.validating.webhook.admission.k8s.io/round_0_index_0"
        assert events[-1]["annotations"][key] == "w.example.com"


async def test_a_webhook_with_a_certificate_of_an_unknown_authority_is_not_trusted(tmp_path: Path) -> None:
    async with world_with(tmp_path) as (world, server):
        config = {"url": server.config["url"]}
        await world.delete(f"{POLICIES}/validatingwebhookconfigurations/w")
        await register(world, "validating", {"clientConfig": config})
        error = await refusal(world.post(MAPS, config_map()))
        assert "tls: failed to verify certificate: x509: certificate signed by unknown authority" in str(
            error
        )
        assert not server.requests


async def test_a_slow_webhook_is_given_up(tmp_path: Path) -> None:
    async with world_with(tmp_path, timeoutSeconds=1) as (world, server):
        server.delay.clear()
        stored = world.api.resource("admissionregistration.k8s.io", "validatingwebhookconfigurations").cache
        stored.get("w").hub["webhooks"][0]["timeoutSeconds"] = 0.05  # not a second, for the test's sake
        error = await refusal(world.post(MAPS, config_map()))
        assert "?timeout=1s" in error.message
        assert error.message.endswith("context deadline exceeded")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((500, b"oops"), 'an error on the server ("oops") has prevented the request from succeeding'),
        ((404, b""), "the server could not find the requested resource"),
        ((302, b"elsewhere"), "the server responded with the status code 302"),
        (b"", "0-length response with status code: 200"),
        (b"nonsense", "couldn't get version/kind; json parse error"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "webhook response was absent"),
        ({"uid": "other", "allowed": True}, 'expected response.uid="'),
        ({"allowed": True, "patch": "e30=", "patchType": "JSONPatch"}, "may not return response.patch"),
    ],
)
async def test_answers_that_make_no_sense_fail_the_request(tmp_path: Path, answer: Any, words: str) -> None:
    async with world_with(tmp_path) as (world, server):
        server.answer = lambda request: answer
        error = await refusal(world.post(MAPS, config_map()))
        assert isinstance(error, InternalError)
        assert words in error.message


async def test_a_webhook_in_the_cluster_is_found_by_its_service(tmp_path: Path) -> None:
    name = "hook.default.svc"
    async with world_with(tmp_path, "validating", name) as (world, server):
        await world.delete(f"{POLICIES}/validatingwebhookconfigurations/w")
        service = {"namespace": "default", "name": "hook", "path": "/in"}
        await register(world, "validating", {"clientConfig": {"service": service, "caBundle": server.ca}})
        error = await refusal(world.post(MAPS, config_map()))
        assert f'Post "https://{name}:443/in?timeout=10s": services "hook" not found' in error.message
        ports = [{"port": 443, "targetPort": server.port}]
        services = "/api/v1/namespaces/default/services"
        await world.post(services, {"metadata": {"name": "hook"}, "spec": {"ports": ports}})
        error = await refusal(world.post(MAPS, config_map()))
        assert 'no endpoints available for service "hook"' in error.message
        subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": server.port}]}
        # Validation keeps loopback out of Endpoints; a node's address would be here.
        endpoints = world.api.resource("", "endpoints").cache
        from dray.server.storage.documents import Document

        hub = {"metadata": {"name": "hook", "namespace": "default"}, "subsets": [subset]}
        endpoints.put("default/hook", Document(endpoints.codecs, "default/hook", 1, hub=hub), 1)
        assert await world.post(MAPS, config_map())
        assert len(server.requests) == 1


# -- mutating


async def test_a_webhook_changes_objects_by_patches(tmp_path: Path) -> None:
    async with world_with(tmp_path, "mutating") as (world, server):
        server.answer = lambda request: patched(add("/data/b", "2"))
        assert (await world.post(MAPS, config_map(a="1")))["data"] == {"a": "1", "b": "2"}


async def test_each_webhook_sees_what_those_before_it_did(tmp_path: Path) -> None:
    async with world_with(tmp_path, "mutating") as (world, server):
        await register(world, "mutating", {"clientConfig": server.config}, "x")
        server.answer = lambda request: patched(add(f"/data/k{len(request['object']['data'])}", "v"))
        assert (await world.post(MAPS, config_map(a="1")))["data"] == {"a": "1", "k1": "v", "k2": "v"}


async def test_a_webhook_is_asked_again_if_needed_and_only_then(tmp_path: Path) -> None:
    async with world_with(tmp_path, "mutating", reinvocationPolicy="IfNeeded") as (world, server):
        await register(world, "mutating", {"clientConfig": server.config}, "x")
        server.answer = lambda request: patched(add("/data/seen", "x"))
        await world.post(MAPS, config_map(a="1"))
        # The second changes nothing that the first has not: nobody is asked twice.
        assert len(server.requests) == 2
        server.requests.clear()
        server.answer = lambda request: patched(add(f"/data/k{len(request['object']['data'])}", "v"))
        await world.post(MAPS, config_map("n", a="1"))
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"allowed": True, "patch": "e30="}, "webhook returned response.patch but not response.patchType"),
        ({"allowed": True, "patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
        ({"allowed": True, "patch": "e30=", "patchType": "JSONPatch"}, "received undecodable patch"),
        (patched({"op": "remove", "path": "/data/none"}), "Unable to remove nonexistent key: none"),
        (patched(add("/data", "text")), "cannot unmarshal string"),
    ],
)  # fmt: skip
async def test_patches_that_cannot_be_applied_fail_the_request(
    tmp_path: Path, answer: Object, words: str
) -> None:
    async with world_with(tmp_path, "mutating") as (world, server):
        server.answer = lambda request: answer
        error = await refusal(world.post(MAPS, config_map(a="1")))
        assert isinstance(error, InternalError)
        assert words in error.message


async def test_the_audit_log_says_who_changed_what(tmp_path: Path) -> None:
    async with world_with(tmp_path, "mutating") as (world, server):
        server.answer = lambda request: patched(add("/data/b", "2"))
        events = listen(world, "Request")
        await world.post(MAPS, config_map(a="1"))
        notes = events[-1]["annotations"]
        place = "webhook.admission.k8s.io/round_0_index_0"
        assert msgspec.json.decode(notes[f"mutation.{place}"]) == {
            "configuration": "w",
            "webhook": "w.example.com",
            "mutated": True,
        }
        assert msgspec.json.decode(notes[f"patch.{place}"])["patch"] == [add("/data/b", "2")]
        events = listen(world, "Metadata")
        await world.post(MAPS, config_map("n", a="1"))
        assert f"patch.{place}" not in events[-1]["annotations"]
