"""The audit log: which requests, at which level, at which stages, and never a secret."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from dray.api.user import UserInfo
from dray.server.audit.log import Log
from dray.server.audit.policy import Policy, PolicyError, read
from dray.server.auth.authorizer import Attributes
from tests.support.admission import config_map, listen, make_world, pod, refusal

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"


async def test_an_event_says_who_did_what_to_which_object_and_how_it_ended() -> None:
    world = await make_world()
    events = listen(world, omitStages=["RequestReceived"])
    await world.post(MAPS, config_map(), client=world.user("ann", "dev"))
    [event] = events
    assert (event["kind"], event["apiVersion"]) == ("Event", "audit.k8s.io/v1")
    assert (event["level"], event["stage"], event["verb"]) == ("Metadata", "ResponseComplete", "create")
    assert event["requestURI"] == MAPS
    assert event["user"] == {"username": "ann", "groups": ["dev", "system:authenticated"]}
    assert event["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "name": "m",
        "apiVersion": "v1",
    }
    assert event["responseStatus"] == {"metadata": {}, "code": 201}
    assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert "requestObject" not in event


async def test_refusals_are_logged_with_their_reason() -> None:
    world = await make_world("AlwaysDeny")
    events = listen(world)
    await refusal(world.post(MAPS, config_map()))
    status = events[-1]["responseStatus"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")


async def test_levels_decide_about_bodies() -> None:
    world = await make_world()
    events = listen(world, "RequestResponse", omitManagedFields=True)
    await world.post(MAPS, config_map(a="1"))
    received, complete = events
    assert received["stage"] == "RequestReceived"
    assert "requestObject" not in received
    assert complete["requestObject"]["data"] == {"a": "1"}
    assert complete["responseObject"]["metadata"]["uid"]
    assert "managedFields" not in complete["responseObject"]["metadata"]
    events = listen(world, "Request")
    await world.patch(f"{MAPS}/m", {"data": {"b": "2"}})
    assert events[-1]["requestObject"] == {"data": {"b": "2"}}
    assert "responseObject" not in events[-1]


async def test_secrets_are_never_in_the_log_whatever_the_policy_says() -> None:
    world = await make_world()
    events = listen(world, "RequestResponse")
    await world.post(SECRETS, {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}})
    await world.get(f"{SECRETS}/s")
    await world.get(SECRETS)
    await world.patch(f"{SECRETS}/s", {"stringData": {"password": "hunter3"}})
    assert len(events) == 8
    assert {event["level"] for event in events} == {"Metadata"}
    text = json.dumps(events)
    assert "hunter" not in text
    assert "aHVudGVy" not in text  # nor in base64


async def test_watches_are_logged_when_they_start_and_when_they_end() -> None:
    world = await make_world()
    events = listen(world)
    async with world.client.watch(MAPS):
        assert [e["stage"] for e in events] == ["RequestReceived", "ResponseStarted"]
    assert [e["stage"] for e in events] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert len({e["auditID"] for e in events}) == 1


async def test_a_refused_caller_leaves_a_trace() -> None:
    from dray.server.endpoints.requests import Request
    from dray.wire.messages import Headers

    world = await make_world()
    events = listen(world)
    bad = Request("GET", MAPS, headers=Headers([("authorization", "Bearer wrong")]))
    await refusal(world.api.handle(bad))
    assert events[-1]["responseStatus"]["code"] == 401
    assert events[-1]["user"] == {}
    assert "wrong" not in json.dumps(events)


def asked(verb: str = "get", resource: str = "pods", **more: Any) -> Attributes:
    user = UserInfo("ann", groups=("dev",))
    return Attributes(user, verb, version="v1", resource=resource, namespace="ns", **more)


@pytest.mark.parametrize(
    ("rule", "request_", "matches"),
    [
        ({}, asked(), True),
        ({"users": ["ann"]}, asked(), True),
        ({"users": ["bob"]}, asked(), False),
        ({"userGroups": ["dev"]}, asked(), True),
        ({"verbs": ["list"]}, asked(), False),
        ({"namespaces": ["ns"]}, asked(), True),
        ({"namespaces": [""]}, asked(), False),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, asked(), True),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, asked(subresource="log"), False),
        ({"resources": [{"group": "", "resources": ["pods/*"]}]}, asked(subresource="log"), True),
        ({"resources": [{"group": "", "resources": ["*/log"]}]}, asked(subresource="log"), True),
        ({"resources": [{"group": "apps"}]}, asked(), False),
        ({"resources": [{"group": "*"}]}, asked(), True),
        ({"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["x"]}]}, asked(name="x"), True),
        ({"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["x"]}]}, asked(name="y"), False),
        ({"nonResourceURLs": ["/healthz*"]}, asked(), False),
        ({"nonResourceURLs": ["/healthz*"]}, Attributes(UserInfo("x"), "get", path="/healthz/ping"), True),
    ],
)  # fmt: skip
def test_rules_match_as_upstreams_do(rule: dict[str, Any], request_: Attributes, matches: bool) -> None:
    policy = Policy({"rules": [{"level": "Metadata", **rule}]})
    assert (policy.audit_config(request_).level == "Metadata") is matches


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rules: []", "unknown group version field"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []", "loaded illegal policy with 0 rules"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]", 'rules[0].level: Unsupported value: "All"'),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, omitStages: [X]}]", "allowed stages are"),
        (
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, nonResourceURLs: ['x*y']}]",
            "must begin with a '/' character",
        ),
        ("{", "failed decoding"),
    ],
)  # fmt: skip
def test_policies_that_make_no_sense_are_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        read(file)
    assert words in str(caught.value)


async def test_the_log_is_one_document_a_line_for_its_owner_only(tmp_path: Path) -> None:
    world = await make_world()
    log = Log(str(tmp_path / "logs" / "audit.log"))
    listen(world)
    world.api.audit.sink = log
    await world.post("/api/v1/namespaces/default/pods", pod())
    log.close()
    file = tmp_path / "logs" / "audit.log"
    assert [json.loads(line)["stage"] for line in file.read_text().splitlines()] == [
        "RequestReceived",
        "ResponseComplete",
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
