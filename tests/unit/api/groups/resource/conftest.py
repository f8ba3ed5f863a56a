"""Recorded conversations, replayed on the rules alone: no server, no store, no network."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dray.api import errors
from dray.api.groups import resource as resource_group
from dray.api.patch import mergepatch
from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion, Gates, Release, parse_gates
from dray.api.schema import decode, omit_empty, type_of
from dray.api.scheme.kinds import Kind, Object, Version
from dray.api.scheme.strategy import Context, Strategy
from dray.api.user import UserInfo
from dray.api.validation import objectmeta
from dray.api.validation.expressions import Compiler, accept_anything
from tests.support.recordings import NOW, Played, Unplayable, clean

GATES_136 = "DRADeviceTaintRules=true,DRAListTypeAttributes=true,DRANodeAllocatableResources=true,DRAResourcePoolStatus=true"
ADMIN = UserInfo("admin", groups=("system:masters",))


@dataclass
class Registry:
    """Just enough of an API server to apply the rules of the resource kinds in the right order."""

    release: str
    gates: Gates
    compiler: Compiler = accept_anything
    user: UserInfo = ADMIN
    allows: Callable[..., bool] = lambda *_: True
    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        release = EffectiveVersion.parse(self.release)
        serving = release.serving({"api/all": True}, gates=self.gates)
        self.kinds: dict[tuple[str, str], tuple[Kind, Version]] = {
            (version.name, kind.plural): (kind, version)
            for kind in resource_group.kinds(APIQuirks.of(release))
            for version in kind.versions
            if serving(kind.group, version.name, kind.plural)
        }

    def call(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, Any]:
        url = urlsplit(path)
        query = parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        if parts[:3] == ["api", "v1", "namespaces"] and len(parts) <= 4:
            return self._namespace(method, parts[3:], body)
        if parts[:2] != ["apis", "resource.k8s.io"] or query.keys() - {"dryRun", "fieldManager"}:
            raise Unplayable
        version, rest = parts[2], parts[3:]
        namespace = ""
        if rest[:1] == ["namespaces"]:
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3]
        if not rest or (version, plural) not in self.kinds:
            raise Unplayable
        kind, served = self.kinds[version, plural]
        ctx = self._context(method)
        try:
            return self._verb(
                method, kind, served, namespace, name, subresource, body, content_type, ctx, "dryRun" in query
            )
        except errors.StatusError as problem:
            return problem.http_code, problem.status()

    def adopt(self, path: str, body: Any) -> None:
        """Take over what a step led to that only a server can play (another kind of patch)."""
        parts = urlsplit(path).path.strip("/").split("/")
        known = "reservedFor" not in body.get("status", {})  # recordings leave out uids, which these need
        if parts[:2] == ["apis", "resource.k8s.io"] and "metadata" in body and known:
            plural = parts[5] if parts[3] == "namespaces" else parts[3]
            kind, version = self.kinds[parts[2], plural]
            obj = self._decode(kind, version, json.loads(json.dumps(body).replace("<time>", NOW)))
            obj["metadata"].update(uid="00000000-0000-0000-0000-000000000001", resourceVersion="1")
            self.objects[plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = obj

    def _context(self, method: str) -> Context:
        return Context(
            quirks=APIQuirks.of(EffectiveVersion.parse(self.release)),
            gates=self.gates,
            now=NOW,
            user=self.user,
            namespace_labels=self.namespaces.get,
            allows=self.allows,
            verb={"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "get"),
            expressions=self.compiler,
        )

    def _namespace(self, method: str, rest: list[str], body: Any) -> tuple[int, Any]:
        name = rest[0] if rest else body["metadata"]["name"]
        if method == "DELETE":
            raise Unplayable
        labels = self.namespaces.setdefault(name, {})
        for key, value in (body["metadata"].get("labels") or {}).items():
            labels.pop(key, None)
            if value is not None:
                labels[key] = value
        raise Unplayable

    def _verb(
        self, method: str, kind: Kind, version: Version, namespace: str, name: str, subresource: str, body: Any,
        content_type: str, ctx: Context, dry: bool,
    ) -> tuple[int, Any]:  # fmt: skip
        key = (kind.plural, namespace, name)
        if method == "POST":
            obj = self._decode(kind, version, body)
            return 201, self._create(kind, version, namespace, obj, ctx, dry)
        if not name:
            raise Unplayable
        old = self.objects.get(key)
        if old is None:
            if method == "PUT":
                raise Unplayable
            raise errors.not_found(kind.plural, kind.group, name)
        if method == "GET":
            return 200, self._encode(kind, version, old)
        if method == "DELETE":
            if old["metadata"].get("finalizers"):
                old["metadata"]["deletionTimestamp"] = NOW
                old["metadata"]["deletionGracePeriodSeconds"] = 0
                return 200, self._encode(kind, version, old)
            del self.objects[key]
            return 200, self._encode(kind, version, old)
        if method == "PATCH":
            if content_type != "application/merge-patch+json":
                raise Unplayable
            body = mergepatch.apply(self._encode(kind, version, old), body)
        new = self._decode(kind, version, body)
        return 200, self._update(kind, version, subresource, key, new, old, ctx, dry)

    def _decode(self, kind: Kind, version: Version, body: Any) -> Object:
        struct = type_of(version.type, Release.parse(self.release))
        obj = decode(struct, json.dumps(body).encode()).object
        if version.default:
            version.default(obj)
        return version.to_hub(obj) if version.to_hub else obj

    def _encode(self, kind: Kind, version: Version, hub: Object) -> Object:
        obj = version.from_hub(hub) if version.from_hub else hub
        obj = copy.deepcopy(obj)
        omit_empty(type_of(version.type, Release.parse(self.release)), obj)
        return {**obj, "apiVersion": f"{kind.group}/{version.name}", "kind": kind.kind}

    def _create(
        self, kind: Kind, version: Version, namespace: str, obj: Object, ctx: Context, dry: bool
    ) -> Object:
        metadata = obj["metadata"]
        if namespace:
            metadata["namespace"] = namespace
        metadata.update(
            creationTimestamp=NOW, uid="00000000-0000-0000-0000-000000000001", resourceVersion="1"
        )
        kind.strategy.prepare_create(obj, ctx)
        assert isinstance(kind.strategy, Strategy) and kind.strategy.check_name
        problems = objectmeta.validate_object_meta(
            metadata,
            namespaced=kind.namespaced,
            check_name=kind.strategy.check_name,
            declared=ctx.quirks.declares_rules,
        )
        problems += kind.strategy.validate(obj, ctx)
        if problems:
            raise errors.invalid(kind.kind, kind.group, metadata.get("name", ""), problems)
        if not dry:
            self.objects[kind.plural, namespace, metadata["name"]] = obj
        return self._encode(kind, version, obj)

    def _update(
        self, kind: Kind, version: Version, subresource: str, key: tuple[str, str, str], new: Object, old: Object,
        ctx: Context, dry: bool,
    ) -> Object:  # fmt: skip
        strategy = kind.subresources[subresource] if subresource else kind.strategy
        frozen = copy.deepcopy(old)
        new["metadata"]["creationTimestamp"] = old["metadata"]["creationTimestamp"]
        if key[1]:
            new["metadata"]["namespace"] = key[1]
        _carry_over(new["metadata"], old["metadata"])
        strategy.prepare_update(new, old, ctx)
        problems = objectmeta.validate_object_meta_update(
            new["metadata"], old["metadata"], declared=ctx.quirks.declares_rules
        )
        problems += strategy.validate_update(new, old, ctx)
        assert old == frozen, "rules must not change the old object"
        if problems:
            raise errors.invalid(kind.kind, kind.group, key[2], problems)
        if not dry:
            self.objects[key] = new
            if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
                del self.objects[key]
        return self._encode(kind, version, new)


def _carry_over(new: Object, old: Object) -> None:
    new.pop("generation", None)
    for name in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "resourceVersion"):
        if name in old:
            new.setdefault(name, old[name])


def play(recording: Path, registry: Registry) -> list[Played]:
    """Replay what can be replayed; the rest is left to the tests against a real server."""
    import jmespath

    played = []
    for record in json.loads(recording.read_text())["recorded"]:
        step = record["step"]
        if "call" not in step or "${" in json.dumps(step) or "Table" in step.get("accept", ""):
            continue
        if record["code"] not in (200, 201, 422):
            continue
        method, path = step["call"].split(" ", 1)
        try:
            code, document = registry.call(
                method, path, copy.deepcopy(step.get("body")), step.get("contentType", "application/json")
            )
        except Unplayable:
            if record["code"] == 200 and "only" not in step and method in ("PATCH", "PUT"):
                registry.adopt(path, record["body"])
            continue
        if "only" in step:
            document = {expression: jmespath.search(expression, document) for expression in step["only"]}
        played.append(Played(step, (record["code"], record["body"]), (code, clean(document))))
    return played


@pytest.fixture
def replay(conformance: Path) -> Callable[..., list[Played]]:
    def run(name: str, **options: Any) -> list[Played]:
        folder, _, _ = name.partition("/")
        release = {"api-136": "1.36", "api-130": "1.30"}[folder]
        changes = parse_gates(GATES_136) if release == "1.36" else {}
        gates = EffectiveVersion.parse(release).gates(changes)
        return play(conformance / f"{name}.json", Registry(release, gates, **options))

    return run
