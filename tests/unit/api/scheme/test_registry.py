"""What must hold for every kind: whatever the schema lets through, rules judge it and never fall over it."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion, Release
from dray.api.schema import ListOf, MapOf, Scalar, Struct, Type, decode, type_of
from dray.api.scheme.kinds import Kind, Object, Version
from dray.api.scheme.registry import kinds, scheme
from dray.api.scheme.strategy import Context
from dray.api.user import UserInfo

NOW = "2026-01-02T03:04:05Z"
STAMP = {"uid": "u", "creationTimestamp": NOW, "resourceVersion": "1"}
WORDS = (
    "", "a", "x-1", "A B", "example.com/a", "1.2.3.4", "::1", "0", "10%", "-5", "a.b.c", "latest", "Always", "Never",
    "In", "Exists", "NotIn", "v1", "Equal", "NoSchedule", "10Mi", "1", "cpu", "memory", "kubernetes.io/hostname",
    "None", "ClusterIP", "RollingUpdate", "*", "get", "true", "linux", "* * * * *", "TCP", NOW, "/", "/a", "..",
    "IPv4", "Local", "Fail", "ServiceAccount", "User", "rbac.authorization.k8s.io", "object", "array", "Namespaced",
)  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "string": WORDS,
    "bool": (True, False),
    "int32": (0, 1, -1, 5, 80, 65536, 2**31 - 1),
    "int64": (0, 1, -1, 5, 80, 65536, 2**31 - 1),
    "float64": (0, 1.5),
    "quantity": ("0", "1", "10Mi", "500m", "-1", "1.5"),
    "intorstring": (0, 1, "25%", "x", 80),
    "time": (NOW,),
    "microtime": ("2026-01-02T03:04:05.000000Z",),
    "bytes": ("YQ==",),
    "duration": ("5s",),
    "raw": ({}, {"a": 1}, "x"),
}
ALL = [
    pytest.param(kind, version, release, id=f"{release}-{kind.group}-{version.name}-{kind.kind}")
    for release in ("1.27", "1.30", "1.36")
    for kind in kinds(EffectiveVersion.parse(release))
    if kind.group != "resource.k8s.io"
    for version in kind.versions
]


class Maker:
    """Makes up documents of a type, ever smaller the deeper they are."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def value(self, type_: Type, depth: int = 0) -> Any:
        match type_:
            case Struct():
                likely = 0.5 if depth < 3 else 0.25 if depth < 6 else 0.06
                chosen = [
                    f for f in type_.fields if self.random.random() < likely or self._main(f.name, depth)
                ]
                return {f.name: self.value(f.type, depth + 1) for f in chosen if f.name != "managedFields"}
            case ListOf():
                return [self.value(type_.item, depth + 1) for _ in range(self.random.choice((0, 1, 1, 2)))]
            case MapOf():
                size = self.random.choice((0, 1, 2))
                return {self.random.choice(WORDS): self.value(type_.value, depth + 1) for _ in range(size)}
            case Scalar():
                return self.random.choice(VALUES[type_.base])
        return True if depth > 8 else self.value(self.random.choice(type_.options), depth + 1)

    def _main(self, name: str, depth: int) -> bool:
        return depth == 0 and name in ("spec", "status") and self.random.random() < 0.9

    def object(self, type_: Struct, kind: Kind, version: Version) -> Object:
        made: Object = self.value(type_)
        made["kind"] = kind.kind
        made["apiVersion"] = f"{kind.group}/{version.name}".removeprefix("/")
        made.setdefault("metadata", {}).setdefault("name", "x")
        return made


def hub_of(document: Object, type_: Struct, version: Version) -> Object:
    obj = decode(type_, json.dumps(document).encode()).object
    if version.default is not None:
        version.default(obj)
    hub = version.to_hub(obj) if version.to_hub is not None else obj
    hub["metadata"].update(STAMP)
    return hub


@pytest.mark.parametrize(("kind", "version", "release"), ALL)
def test_rules_judge_whatever_can_be_decoded(kind, version, release):
    type_ = type_of(version.type, Release.parse(release))
    effective = EffectiveVersion.parse(release)
    ctx = Context(gates=effective.gates(), quirks=APIQuirks.of(effective), now=NOW, user=UserInfo("u"))
    for i in range(8):
        maker = Maker(f"{kind.kind}{version.name}{i}")
        document = maker.object(type_, kind, version)
        hub = hub_of(document, type_, version)
        kind.strategy.prepare_create(hub, ctx)
        assert all(str(e) for e in kind.strategy.validate(hub, ctx))
        assert all(isinstance(w, str) for w in kind.strategy.warn(hub, ctx))
        kind.strategy.canonicalize(hub)
        other = maker.object(type_, kind, version) if i % 2 else document
        for rules in (kind.strategy, *kind.subresources.values()):
            new, old = hub_of(other, type_, version), copy.deepcopy(hub)
            rules.prepare_update(new, old, ctx)
            assert all(str(e) for e in rules.validate_update(new, old, ctx))
            assert all(isinstance(w, str) for w in rules.warn_update(new, old, ctx))
            assert old == hub, "the old object is not for changing"
        look_at(kind, version, hub, ctx)


def look_at(kind: Kind, version: Version, hub: Object, ctx: Context) -> None:
    if kind.printer is not None:
        without_column = (
            1 if kind.kind == "IPAddress" else 0
        )  # upstream's rows have an age that no column is for
        assert len(kind.printer.cells(hub, 1.8e9)) == len(kind.printer.columns) + without_column
        if kind.printer.conditions is not None:
            assert list(kind.printer.conditions(hub)) is not None
    assert all(isinstance(read(hub), str) for read in kind.fields.values())
    if version.from_hub is not None:
        version.from_hub(hub)
    assert kind.strategy.grace(hub, 5) in (None, 0, 5)
    kind.strategy.held(hub)
    doomed = copy.deepcopy(hub)
    doomed["metadata"]["deletionTimestamp"] = NOW
    kind.strategy.begin_deletion(doomed, ctx)


def test_names_and_places_are_unique():
    found = [k for k in kinds(EffectiveVersion.parse("1.36")) if k.group != "resource.k8s.io"]
    keys = [(k.group, k.plural, v.name) for k in found for v in k.versions]
    assert len(keys) == len(set(keys))
    stored = [k for k in found if not k.virtual and k.stored_as is None]
    prefixes = [k.prefix or k.plural for k in stored]
    assert len(prefixes) == len(set(prefixes))
    for kind in stored:
        assert kind.strategy.check_name is not None, kind.kind
        assert kind.storage in {v.name for v in kind.versions}


def test_places_are_upstreams():
    places = {
        k.plural: k.prefix or k.plural
        for k in kinds(EffectiveVersion.parse("1.36"))
        if k.group in ("", "apps")
    }
    assert places["pods"] == "pods"
    assert places["nodes"] == "minions"
    assert places["services"] == "services/specs"
    assert places["endpoints"] == "services/endpoints"


def test_kinds_are_found_by_plural_and_by_kind():
    found = scheme(EffectiveVersion.parse("1.36"))
    assert found.by_plural("", "v1", "pods") == found.by_kind("", "v1", "Pod")
    assert found.by_plural("apps", "v1", "deployments").kind.kind == "Deployment"
    assert found.by_plural("", "v2", "pods") is None
    assert found.by_kind("x", "v1", "Pod") is None
