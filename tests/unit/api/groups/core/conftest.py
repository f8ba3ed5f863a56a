"""Recorded conversations about kinds outside of resource.k8s.io, replayed on their rules alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jmespath
import pytest

from dray.api import errors
from dray.api.groups import apiextensions
from dray.api.groups.core.pod import bind, check_binding
from dray.api.patch import mergepatch, strategic
from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion, Release
from dray.api.schema import decode, omit_empty, type_of
from dray.api.scheme.kinds import Kind, Object
from dray.api.scheme.registry import KindVersion, scheme
from dray.api.scheme.strategy import Context
from dray.api.user import UserInfo
from dray.api.validation import field as field_errors
from dray.api.validation import objectmeta
from tests.support.expression_compilers import compile_policy, compile_rule
from tests.support.recordings import NOW, Played, Unplayable, clean

_IMMORTAL = ("default", "kube-system")
_STRATEGIC = "application/strategic-merge-patch+json"
_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


@dataclass
class Bench:
    """Just enough of an API server to apply rules in the right order, with the admission that recordings had."""

    release: str = "1.36"
    objects: dict[tuple[str, str, str, str], Object] = field(default_factory=dict)
    custom: dict[tuple[str, str, str], KindVersion] = field(default_factory=dict)

    def __post_init__(self) -> None:
        release = EffectiveVersion.parse(self.release)
        self.registry = scheme(release)
        self.context = Context(
            gates=release.gates(),
            quirks=APIQuirks.of(release),
            now=NOW,
            user=UserInfo("admin", groups=("system:masters",)),
            policies=compile_policy,
            rules=compile_rule,
        )
        for name in _IMMORTAL:
            self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}}, "application/json")

    def call(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, Any, list[str]]:
        self.warnings: list[str] = []
        try:
            code, answer = self._route(method, path, body, content_type)
        except errors.StatusError as problem:
            code, answer = problem.http_code, problem.status()
        return code, answer, self.warnings

    def _route(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, Any]:
        url = urlsplit(path)
        query = parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        if len(parts) < 4 - (parts[0] == "api"):
            raise Unplayable
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (*parts[1:3], parts[3:])
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "", "")[:3]
        found = self.registry.by_plural(group, version, plural) or self.custom.get((group, version, plural))
        if (
            found is None
            or query.keys() - {"dryRun", "fieldManager", "gracePeriodSeconds", "fieldValidation"}
            or group == "resource.k8s.io"
        ):
            raise Unplayable
        self.strict = query.get("fieldValidation") == ["Strict"]
        kind, key = found.kind, (group, plural, namespace, name)
        if method == "POST" and (subresource == "binding" or plural == "bindings"):
            return self._bind(name or body["metadata"]["name"], namespace, body)
        if method == "POST" and not name and not kind.virtual:
            return 201, self._create(kind, version, namespace, body, dry="dryRun" in query)
        if method == "POST" or not name or (subresource and subresource not in kind.subresources):
            raise Unplayable
        old = self.objects.get(key)
        if old is None:
            raise errors.not_found(plural, group, name)
        if method == "GET":
            return 200, self._encode(kind, version, old)
        if method == "DELETE":
            if name in _IMMORTAL:
                raise errors.forbidden(plural, group, name, "this namespace may not be deleted")
            return self._delete(kind, version, key, query)
        if method == "PATCH":
            body = self._patched(kind, version, old, body, content_type)
        return 200, self._update(kind, version, subresource, key, body, old)

    def decode(self, kind: Kind, version: str, body: Any) -> Object:
        served = kind.version(version)
        if served.prune is not None:
            obj: Object = copy.deepcopy(body)
            problems = served.prune(obj)
            if problems and self.strict:
                words = "strict decoding error: " + ", ".join(problems)
                raise errors.BadRequest(
                    f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: {words}'
                )
            self.warnings += problems
            assert served.default is not None
            served.default(obj)
            return obj
        decoded = decode(type_of(served.type, Release.parse(self.release)), json.dumps(body).encode())
        self.warnings += decoded.problems
        if served.default:
            served.default(decoded.object)
        return served.to_hub(decoded.object) if served.to_hub else decoded.object

    def _encode(self, kind: Kind, version: str, hub: Object) -> Object:
        served = kind.version(version)
        obj = copy.deepcopy(served.from_hub(hub) if served.from_hub else hub)
        if served.type:
            omit_empty(type_of(served.type, Release.parse(self.release)), obj)
        return {**obj, "apiVersion": f"{kind.group}/{version}".removeprefix("/"), "kind": kind.kind}

    def _create(self, kind: Kind, version: str, namespace: str, body: Any, *, dry: bool) -> Object:
        obj = self.decode(kind, version, body)
        metadata = obj["metadata"]
        if namespace:
            metadata["namespace"] = namespace
        name = metadata.get("name", "")
        if namespace:
            self._enter(namespace, kind, name)
        metadata.update(
            creationTimestamp=NOW, uid="00000000-0000-0000-0000-000000000001", resourceVersion="1"
        )
        _admit(kind, obj)
        kind.strategy.prepare_create(obj, self.context)
        assert kind.strategy.check_name is not None
        problems = objectmeta.validate_object_meta(
            metadata,
            namespaced=kind.namespaced,
            check_name=kind.strategy.check_name,
            declared=self.context.quirks.declares_rules,
        )
        problems += kind.strategy.validate(obj, self.context)
        if problems:
            raise errors.invalid(kind.kind, kind.group, name, problems)
        self.warnings += kind.strategy.warn(obj, self.context)
        kind.strategy.canonicalize(obj)
        if (kind.group, kind.plural, namespace, name) in self.objects:
            raise errors.already_exists(kind.plural, kind.group, name)
        if not dry:
            self.objects[kind.group, kind.plural, namespace, name] = obj
        shown = self._encode(kind, version, obj)
        if kind is apiextensions.CUSTOM_RESOURCE_DEFINITION and not dry:
            self._establish(obj)
        return shown

    def _establish(self, definition: Object) -> None:
        others = [o for key, o in self.objects.items() if key[1] == "customresourcedefinitions"]
        accepted = apiextensions.accept_names(definition, [o for o in others if o is not definition], NOW)
        name = definition["metadata"]["name"]
        self.objects["apiextensions.k8s.io", "customresourcedefinitions", "", name] = accepted
        for kind in apiextensions.custom_kinds(accepted):
            served = kind.versions[0]
            self.custom[kind.group, served.name, kind.plural] = KindVersion(kind, served)

    def _enter(self, namespace: str, kind: Kind, name: str) -> None:
        """Nothing is made in a namespace that is not there or that is going away."""
        found = self.objects.get(("", "namespaces", "", namespace))
        if found is None:
            raise errors.not_found("namespaces", "", namespace)
        if found["metadata"].get("deletionTimestamp"):
            words = f"unable to create new content in namespace {namespace} because it is being terminated"
            problem = errors.forbidden(kind.plural, kind.group, name, words)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            problem.details = {**(problem.details or {}), "causes": [cause]}
            raise problem

    def _patched(self, kind: Kind, version: str, old: Object, body: Any, content_type: str) -> Any:
        before = self._encode(kind, version, old)
        if content_type not in ("application/merge-patch+json", _STRATEGIC) or (
            kind.custom and content_type == _STRATEGIC
        ):
            raise Unplayable
        if content_type == "application/merge-patch+json":
            return mergepatch.apply(before, body)
        if content_type == _STRATEGIC:
            return strategic.apply(
                type_of(kind.version(version).type, Release.parse(self.release)), before, body
            )
        raise Unplayable

    def _update(
        self,
        kind: Kind,
        version: str,
        subresource: str,
        key: tuple[str, str, str, str],
        body: Any,
        old: Object,
    ) -> Object:
        new = self.decode(kind, version, body)
        strategy = kind.subresources[subresource] if subresource else kind.strategy
        if not kind.strategy.unconditional_update and not new["metadata"].get("resourceVersion"):
            problem = field_errors.FieldError(
                field_errors.ErrorType.INVALID,
                "metadata.resourceVersion",
                0,
                "must be specified for an update",
            )
            raise errors.invalid(kind.plural, kind.group, key[3], [problem])
        frozen = copy.deepcopy(old)
        for part in ("creationTimestamp", "uid", "resourceVersion", "namespace", "generation", "deletionTimestamp",
                     "deletionGracePeriodSeconds"):  # fmt: skip
            if part in old["metadata"]:
                new["metadata"].setdefault(part, old["metadata"][part])
        if kind.kind == "Pod" and not subresource:
            _admit(kind, new)
        strategy.prepare_update(new, old, self.context)
        problems = objectmeta.validate_object_meta_update(
            new["metadata"], old["metadata"], declared=self.context.quirks.declares_rules
        )
        problems += strategy.validate_update(new, old, self.context)
        assert old == frozen, "rules must not change the old object"
        if problems:
            raise errors.invalid(kind.kind, kind.group, key[3], problems)
        self.warnings += strategy.warn_update(new, old, self.context)
        kind.strategy.canonicalize(new)
        self.objects[key] = new
        if new["metadata"].get("deletionTimestamp") and not self._stays(kind, new):
            del self.objects[key]
        return self._encode(kind, version, new)

    @staticmethod
    def _stays(kind: Kind, obj: Object) -> bool:
        return bool(obj["metadata"].get("finalizers")) or kind.strategy.held(obj)

    def _delete(
        self, kind: Kind, version: str, key: tuple[str, str, str, str], query: Any
    ) -> tuple[int, Any]:
        old = copy.deepcopy(self.objects[key])
        seconds = query.get("gracePeriodSeconds")
        grace = kind.strategy.grace(old, int(seconds[0]) if seconds else None)
        if kind.kind != "Namespace":
            old["metadata"]["deletionGracePeriodSeconds"] = grace or 0
        old["metadata"].setdefault("deletionTimestamp", NOW)
        kind.strategy.begin_deletion(old, self.context)
        if kind is apiextensions.CUSTOM_RESOURCE_DEFINITION:
            # Nobody is here to clean up first.
            del self.objects[key]
            return 200, self._encode(kind, version, old)
        if grace or self._stays(kind, old):
            self.objects[key] = old
            return 200, self._encode(kind, version, old)
        del self.objects[key]
        if kind.strategy.delete_returns_object:
            return 200, self._encode(kind, version, old)
        details = {"name": key[3], "kind": kind.plural, **({"group": kind.group} if kind.group else {})}
        return 200, {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }

    def _bind(self, name: str, namespace: str, body: Any) -> tuple[int, Any]:
        if body["metadata"]["name"] != name:
            raise errors.BadRequest("name in URL does not match name in Binding object")
        if problems := check_binding(body):
            raise errors.StatusError(str(problems[0]))
        key = ("", "pods", namespace, name)
        if key not in self.objects:
            raise errors.not_found("pods", "", name)
        self.objects[key] = bind(self.objects[key], body, self.context)
        return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _admit(kind: Kind, obj: Object) -> None:
    """What the default admission plugins add to a pod."""
    if kind.kind != "Pod":
        return
    spec = obj["spec"]
    known = {t.get("key") for t in spec.get("tolerations") or ()}
    spec["tolerations"] = [
        *(spec.get("tolerations") or ()),
        *(t for t in _TOLERATIONS if t["key"] not in known),
    ]
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def pick(answer: Any, step: Mapping[str, Any]) -> Any:
    if "only" not in step:
        return answer
    picked = {}
    for expression in step["only"]:
        try:
            picked[expression] = jmespath.search(expression, answer)
        except jmespath.exceptions.JMESPathError:
            picked[expression] = "<not applicable>"
    return picked


def play(recording: Path, bench: Bench) -> Iterator[Played]:
    for recorded in json.loads(recording.read_text())["recorded"]:
        step = recorded["step"]
        if "call" not in step or {"accept", "send", "token", "bodyText"} & step.keys():
            continue
        method, path = step["call"].split(" ", 1)
        kind_of_patch = step.get("contentType", "application/json")
        try:
            code, answer, warned = bench.call(method, path, step.get("body"), kind_of_patch)
        except Unplayable:
            continue
        quoted = ['299 - "' + words.replace("\\", "\\\\").replace('"', '\\"') + '"' for words in warned]
        want = (recorded["code"], clean(recorded["body"]), recorded.get("warnings", []))
        yield Played(step, want, (code, clean(pick(answer, step)), quoted))


@pytest.fixture
def replay(conformance: Path) -> Callable[..., list[Played]]:
    def run(name: str, *, release: str = "1.36") -> list[Played]:
        return list(play(conformance / f"{name}.json", Bench(release)))

    return run


@pytest.fixture
def bench() -> Bench:
    return Bench()
