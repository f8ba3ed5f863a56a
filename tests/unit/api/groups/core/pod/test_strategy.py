"""Pods that are wrong in one way or another, and what is said about them."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.schema import decode, type_of
from dray.api.scheme.registry import scheme
from dray.api.scheme.strategy import Context
from dray.api.validation import objectmeta
from dray.api.validation.cache import ValidationCache

RELEASE = EffectiveVersion.parse("1.36")
POD = scheme(RELEASE).by_kind("", "v1", "Pod").kind
CONTEXT = Context(gates=RELEASE.gates(), quirks=APIQuirks.of(RELEASE), now="2026-01-02T03:04:05Z")
CUT = 100


def judge(spec: Any = None, container: Any = None, about: Any = None) -> tuple[list[str], list[str]]:
    """Errors of and warnings about a pod of one container, changed as given."""
    pod = prepared(spec, container, about)
    found = objectmeta.validate_object_meta(
        pod["metadata"],
        namespaced=True,
        check_name=POD.strategy.check_name,
        declared=CONTEXT.quirks.declares_rules,
    )
    found += POD.strategy.validate(pod, CONTEXT)
    return [str(error)[:CUT] for error in found], [w[:CUT] for w in POD.strategy.warn(pod, CONTEXT)]


def prepared(spec: Any = None, container: Any = None, about: Any = None) -> Any:
    """A pod of one container as the rules see it."""
    whole = {
        "metadata": {"name": "p", "namespace": "ns", **(about or {})},
        "spec": {"containers": [{"name": "c", "image": "i", **(container or {})}], **(spec or {})},
    }
    version = POD.versions[0]
    pod = decode(type_of(version.type, RELEASE.release), json.dumps(whole).encode()).object
    version.default(pod)
    pod = version.to_hub(pod)
    POD.strategy.prepare_create(pod, CONTEXT)
    return pod


CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("pods.yaml").read_text())


@pytest.mark.parametrize("name", CASES)
def test_pods_are_judged_in_upstreams_words(name):
    case = CASES[name]
    given = {part: case.get(part) for part in ("spec", "container", "about")}
    assert judge(**given) == (case.get("errors", []), case.get("warnings", []))


def test_a_plain_pod_is_fine():
    assert judge() == ([], [])


TOKENS = ["kube-api-access-bcdfg", "kube-api-access-hjklm", "kube-api-access-24567"]


def with_token(pod: Any, name: str, *mounts: str, volumes: tuple[str, ...] = ()) -> Any:
    """The pod with a volume for its token, mounted by its first container as given."""
    pod = deepcopy(pod)
    spec = pod["spec"]
    spec["volumes"] = [*(spec.get("volumes") or ()), *({"name": v, "emptyDir": {}} for v in (name, *volumes))]
    mounted = [{"name": mount, "mountPath": f"/m{i}"} for i, mount in enumerate(mounts)]
    container = spec["containers"][0]
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounted]
    return pod


@pytest.mark.parametrize("name", CASES)
def test_pods_that_differ_in_the_name_of_their_token_alone_are_judged_as_if_each_was_looked_at(name):
    remembering, case = CONTEXT._replace(validation_cache=ValidationCache()), CASES[name]
    given = [case.get(part) for part in ("spec", "container", "about")]
    if not (case.get("spec") or {}).get("containers", [{}]):
        return
    for token in TOKENS:
        for mounts in ((token,), ()):
            for volumes in ((), (token,), (TOKENS[0],)):
                pod = with_token(prepared(*given), token, *mounts, volumes=volumes)
                problems, warnings = POD.strategy.check(pod, remembering)
                assert list(problems) == list(POD.strategy.validate(pod, CONTEXT))
                if not problems:
                    assert list(warnings) == list(POD.strategy.warn(pod, CONTEXT))


def test_a_pod_that_differs_in_the_name_of_its_token_alone_is_not_looked_at_again(monkeypatch):
    remembering = CONTEXT._replace(validation_cache=ValidationCache())
    looked: list[str] = []
    monkeypatch.setattr(
        type(POD.strategy), "validate", lambda self, pod, ctx: looked.append(pod["metadata"]["name"]) or ()
    )

    def check(name: str, token: str, *mounts: str, volumes: tuple[str, ...] = ()) -> None:
        pod = with_token(prepared(about={"name": name}), token, *mounts, volumes=volumes)
        POD.strategy.check(pod, remembering)

    first, second, third = TOKENS
    check("a", first, first)
    check("b", second, second)
    check("c", second, first)  # mounts something else
    check("d", third)  # mounts nothing
    check("e", third, third, volumes=(third,))  # two volumes of one name
    check("f", first, first, volumes=(second,))
    check("g", third, third)
    assert looked == ["a", "c", "d", "e", "f"]


def test_a_volume_that_is_named_after_its_pod_is_looked_at_for_every_pod():
    remembering = CONTEXT._replace(validation_cache=ValidationCache())
    source = {
        "volumeClaimTemplate": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
        }
    }
    volumes = {"volumes": [{"name": "v", "ephemeral": source}]}
    for name, wrong in (("short", 0), ("x" * 252, 1)):
        pod = prepared(volumes, about={"name": name})
        assert len(POD.strategy.check(pod, remembering).problems) == wrong


def test_pods_of_one_template_hold_what_they_have_in_common_once():
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
    container = {"resources": {"claims": [{"name": "gpu"}]}, "env": [{"name": "A", "value": "1"}]}
    first, second, other = (
        prepared(claims, {**container, **more}) for more in ({}, {}, {"env": [{"name": "B"}]})
    )
    for part in ("resources", "env"):
        assert first["spec"]["containers"][0][part] is second["spec"]["containers"][0][part]
    assert first["spec"]["resourceClaims"] is second["spec"]["resourceClaims"]
    assert first["spec"]["containers"] is second["spec"]["containers"]
    assert first == second
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    third, fourth = (
        prepared({**claims, "volumes": [{"name": "v", "emptyDir": {}}]}, {**container, **mounted})
        for _ in range(2)
    )
    assert third["spec"]["containers"] is not fourth["spec"]["containers"]
    assert third["spec"]["containers"][0]["env"] is fourth["spec"]["containers"][0]["env"]
    assert other["spec"]["containers"][0]["env"] == [{"name": "B"}]
