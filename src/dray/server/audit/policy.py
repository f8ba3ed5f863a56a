"""An audit policy (audit.k8s.io/v1): which requests are logged, and how much of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict, cast

from dray.api import yamldocs
from dray.api.validation import field, names
from dray.api.validation.field import FieldError
from dray.server.auth.authorizer import Attributes

NONE, METADATA, REQUEST, RESPONSE = LEVELS = ("None", "Metadata", "Request", "RequestResponse")
RECEIVED, STARTED, COMPLETE, PANIC = STAGES = (
    "RequestReceived",
    "ResponseStarted",
    "ResponseComplete",
    "Panic",
)
#: Bodies that carry credentials, which no policy gets into a log.
_CONFIDENTIAL: Final = frozenset(
    {
        ("", "secrets", ""),
        ("", "serviceaccounts", "token"),
        ("authentication.k8s.io", "tokenreviews", ""),
    }
)


class GroupResources(TypedDict, total=False):
    group: str
    resources: Sequence[str]
    resourceNames: Sequence[str]


class PolicyRule(TypedDict, total=False):
    level: str
    users: Sequence[str]
    userGroups: Sequence[str]
    verbs: Sequence[str]
    resources: Sequence[GroupResources]
    namespaces: Sequence[str]
    nonResourceURLs: Sequence[str]
    omitStages: Sequence[str]
    omitManagedFields: bool


class PolicyDocument(TypedDict, total=False):
    """A policy as its file says it."""

    rules: Sequence[PolicyRule]
    omitStages: Sequence[str]
    omitManagedFields: bool


class PolicyError(ValueError):
    """A policy that cannot be used."""


class RequestAuditConfig(NamedTuple):
    """How a request is logged."""

    level: str
    omitted: frozenset[str] = frozenset()  # stages
    managed_fields: bool = True

    def logs(self, stage: str) -> bool:
        return self.level != NONE and stage not in self.omitted

    def at_least(self, level: str) -> bool:
        return LEVELS.index(self.level) >= LEVELS.index(level)


@dataclass(frozen=True, slots=True)
class Rule:
    audit_config: RequestAuditConfig
    users: frozenset[str]
    groups: frozenset[str]
    verbs: frozenset[str]
    namespaces: frozenset[str]
    resources: Sequence[GroupResources]
    paths: Sequence[str]

    def matches(self, asked: Attributes) -> bool:
        if self.users and asked.user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(asked.user.groups):
            return False
        if self.verbs and asked.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return asked.is_resource and self._matches_resource(asked)
        if self.paths:
            return not asked.is_resource and any(_covers(spec, asked.path) for spec in self.paths)
        return True

    def _matches_resource(self, asked: Attributes) -> bool:
        if self.namespaces and asked.namespace not in self.namespaces:
            return False
        return not self.resources or any(_names(entry, asked) for entry in self.resources)


def _covers(spec: str, path: str) -> bool:
    return spec in ("*", path) or (spec.endswith("*") and path.startswith(spec.rstrip("*")))


def _names(entry: GroupResources, asked: Attributes) -> bool:
    if entry.get("group", "") not in (asked.group, "*"):
        return False
    listed = entry.get("resources") or ()
    if not listed:
        return True
    if entry.get("resourceNames") and asked.name not in entry["resourceNames"]:
        return False
    below = asked.subresource
    wanted = {"*", f"{asked.resource}/*", f"{asked.resource}/{below}" if below else asked.resource}
    if below:
        wanted.add(f"*/{below}")
    return not wanted.isdisjoint(listed)


class Policy:
    """Rules in order: the first that matches decides, and what none matches is not logged."""

    def __init__(self, document: PolicyDocument) -> None:
        stages = frozenset(document.get("omitStages") or ())
        without = bool(document.get("omitManagedFields"))
        self._unmatched = RequestAuditConfig(NONE, stages, not without)
        self._rules = [_rule(rule, stages, without) for rule in document.get("rules") or ()]

    def audit_config(self, asked: Attributes) -> RequestAuditConfig:
        found = next((rule.audit_config for rule in self._rules if rule.matches(asked)), self._unmatched)
        if (asked.group, asked.resource, asked.subresource) in _CONFIDENTIAL and found.at_least(REQUEST):
            return found._replace(level=METADATA)
        return found


def _rule(part: PolicyRule, stages: frozenset[str], without: bool) -> Rule:
    own = part.get("omitManagedFields")
    return Rule(
        RequestAuditConfig(
            part["level"],
            stages | frozenset(part.get("omitStages") or ()),
            not (without if own is None else own),
        ),
        frozenset(part.get("users") or ()),
        frozenset(part.get("userGroups") or ()),
        frozenset(part.get("verbs") or ()),
        frozenset(part.get("namespaces") or ()),
        part.get("resources") or (),
        part.get("nonResourceURLs") or (),
    )


def read(path: Path) -> Policy:
    """The policy in a file, or PolicyError."""
    try:
        document = yamldocs.load(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise PolicyError(f'failed to read file path "{path}": {e.strerror}') from None
    except ValueError as e:
        raise PolicyError(f"failed decoding: {e}: from file {path}") from None
    try:
        _check(document)
    except PolicyError as e:
        raise PolicyError(f"{e}: from file {path}") from None
    return Policy(document)


def _check(document: Any) -> None:
    if not isinstance(document, dict):
        raise PolicyError("failed decoding: the policy is no object")
    version, kind = document.get("apiVersion"), document.get("kind")
    if version != "audit.k8s.io/v1" or kind != "Policy":
        raise PolicyError(f"unknown group version field {version}, Kind={kind} in policy")
    policy = cast("PolicyDocument", document)
    rules = policy.get("rules")
    if not rules:
        raise PolicyError("loaded illegal policy with 0 rules")
    problems = _check_stages(policy.get("omitStages"), field.Path("omitStages"))
    for i, rule in enumerate(rules):
        problems += _check_rule(rule, field.Path("rules").index(i))
    if problems:
        texts = list(map(str, problems))
        raise PolicyError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _check_rule(rule: PolicyRule, path: field.Path) -> list[FieldError]:
    problems: list[FieldError] = []
    level = rule.get("level")
    if not level:
        problems.append(field.required(path.child("level")))
    elif level not in LEVELS:
        problems.append(field.not_supported(path.child("level"), level, LEVELS))
    urls, at = rule.get("nonResourceURLs") or [], path.child("nonResourceURLs")
    for i, url in enumerate(urls):
        if url == "*":
            continue
        if not url.startswith("/"):
            words = "non-resource URL rules must begin with a '/' character"
            problems.append(field.invalid(at.index(i), url, words))
        if "*" in url[:-1]:
            words = "non-resource URL wildcards '*' must be the final character of the rule"
            problems.append(field.invalid(at.index(i), url, words))
    for entry in rule.get("resources") or ():
        problems += _check_resource(entry, path.child("resources"))
    problems += _check_stages(rule.get("omitStages"), path.child("omitStages"))
    if urls and (rule.get("resources") or rule.get("namespaces")):
        words = "rules cannot apply to both regular resources and non-resource URLs"
        problems.append(field.invalid(at, urls, words))
    return problems


def _check_resource(entry: GroupResources, path: field.Path) -> list[FieldError]:
    problems: list[FieldError] = []
    group = entry.get("group") or ""
    if group and group != "*" and (messages := names.dns1123_subdomain(group)):
        problems.append(field.invalid(path.child("group"), group, ",".join(messages)))
    if entry.get("resourceNames") and not entry.get("resources"):
        words = "using resourceNames requires at least one resource"
        problems.append(field.invalid(path.child("resourceNames"), entry["resourceNames"], words))
    return problems


def _check_stages(stages: Sequence[str] | None, path: field.Path) -> list[FieldError]:
    words = f"allowed stages are {','.join(STAGES)}"
    return [
        field.invalid(path.index(i), stage, words)
        for i, stage in enumerate(stages or ())
        if stage not in STAGES
    ]
