"""flowcontrol.apiserver.k8s.io: which requests share a limit.

The server bounds requests by shares per user of its own; the kinds are stored for clients and charts that bring them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, STATUS, Context, SpecAndStatusStrategy, StatusStrategy
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.flowcontrol import (
        FlowSchema,
        LimitedPriorityLevelConfiguration,
        LimitResponse,
        NonResourcePolicyRule,
        PolicyRulesWithSubjects,
        PriorityLevelConfiguration,
        QueuingConfiguration,
        ResourcePolicyRule,
        Subject,
    )

_T = TypeVar("_T", "FlowSchema", "PriorityLevelConfiguration")
_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_EXEMPT: Final = "exempt"
_HIGHEST_PRECEDENCE: Final = 10_000
_DEFAULT_PRECEDENCE: Final = 1_000
_MOST_QUEUES: Final = 10_000_000
_MOST_BITS: Final = 60
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_NAMESPACES: Final = "each member of this list must be '*' or a DNS-1123 label; "


class _Strategy(SpecAndStatusStrategy[_T]):
    create_on_update = True
    unconditional_update = False


class _ConditionsStrategy(StatusStrategy[_T]):
    def validate_update(self, new: _T, old: _T, ctx: Context) -> Sequence[FieldError]:
        return _check_conditions(new)


def _check_conditions(obj: FlowSchema | PriorityLevelConfiguration) -> list[FieldError]:
    listed: Sequence[Mapping[str, Any]] = obj.get("status", {}).get("conditions") or ()
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, condition in enumerate(listed):
        kind, at = condition.get("type", ""), STATUS.child("conditions").index(i).child("type")
        found += [field.duplicate(at, kind)] if kind in seen else []
        found += [] if kind else [field.required(at)]
        seen.add(kind)
    return found


# -- flow schemas


def _default_schema(obj: FlowSchema) -> None:
    spec = obj.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = _DEFAULT_PRECEDENCE


def _check_wildcard(items: Sequence[str], path: Path, what: str) -> list[FieldError]:
    if len(items) > 1 and "*" in items:
        return [field.invalid(path, items, f"if '*' is present, must not specify other {what}")]
    return []


def _check_verbs(rule: ResourcePolicyRule | NonResourcePolicyRule, path: Path) -> list[FieldError]:
    verbs, at = rule.get("verbs") or [], path.child("verbs")
    if not verbs:
        return [field.required(at, "verbs must contain at least one value")]
    if "*" in verbs:
        return _check_wildcard(verbs, at, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [field.not_supported(at, verbs, _VERBS)]


def _check_resource_rule(rule: ResourcePolicyRule, path: Path) -> list[FieldError]:
    found = _check_verbs(rule, path)
    for part, what, words in (
        ("apiGroups", "api groups", "resource rules must supply at least one api group"),
        ("resources", "resources", "resource rules must supply at least one resource"),
    ):
        items: list[str] = rule.get(part) or []  # type: ignore[assignment]
        at = path.child(part)
        found += _check_wildcard(items, at, what) if items else [field.required(at, words)]
    namespaces, at = rule.get("namespaces") or [], path.child("namespaces")
    if not namespaces and not rule.get("clusterScope"):
        words = "resource rules that are not cluster scoped must supply at least one namespace"
        found.append(field.required(at, words))
    elif "*" in namespaces:
        found += _check_wildcard(namespaces, at, "namespaces")
    else:
        for i, name in enumerate(namespaces):
            problems = checks.dns_label(name, at.index(i))
            found += [field.invalid(at.index(i), name, _NAMESPACES + problem.detail) for problem in problems]
    return found


def _check_url(url: str, path: Path) -> list[FieldError]:
    if url == "/":
        return []
    words = ""
    if not url:
        words = "must not be empty"
    elif not url.startswith("/"):
        words = "must start with slash"
    elif " " in url:
        words = "must not contain white-space"
    elif "//" in url:
        words = "must not contain double slash"
    elif url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        words = "wildcard can only do suffix matching"
    return [field.invalid(path, url, words)] if words else []


def _check_url_rule(rule: NonResourcePolicyRule, path: Path) -> list[FieldError]:
    found = _check_verbs(rule, path)
    urls, at = rule.get("nonResourceURLs") or [], path.child("nonResourceURLs")
    if not urls:
        return [*found, field.required(at, "nonResourceURLs must contain at least one value")]
    if "*" in urls:
        return found + _check_wildcard(urls, at, "non-resource URLs")
    return found + [p for i, url in enumerate(urls) for p in _check_url(url, at.index(i))]


def _check_subject(subject: Subject, path: Path) -> list[FieldError]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        return [field.not_supported(path.child("kind"), kind, sorted(_SUBJECTS))]
    parts: Mapping[str, Any] = subject
    mine = _SUBJECTS[kind]
    given, at = parts.get(mine), path.child(mine)
    found: list[FieldError] = []
    if given is None:
        found.append(field.required(at, f"{mine} is required when subject kind is '{kind}'"))
    else:
        name = given.get("name", "")
        if not name:
            found.append(field.required(at.child("name")))
        elif mine == "serviceAccount" and name != "*":
            found += checks.dns_subdomain(name, at.child("name"))
        if mine == "serviceAccount":
            namespace, words = given.get("namespace", ""), "must specify namespace for service account"
            within = at.child("namespace")
            found += checks.dns_label(namespace, within) if namespace else [field.required(within, words)]
    for other, part in _SUBJECTS.items():
        if other != kind and parts.get(part) is not None:
            words = f"{part} is forbidden when subject kind is not '{other}'"
            found.append(field.forbidden(path.child(part), words))
    return found


def _check_rules(rule: PolicyRulesWithSubjects, path: Path) -> list[FieldError]:
    subjects, at = rule.get("subjects") or (), path.child("subjects")
    found = [p for i, s in enumerate(subjects) for p in _check_subject(s, at.index(i))]
    if not subjects:
        found.append(field.required(at, "subjects must contain at least one value"))
    resources, urls = rule.get("resourceRules") or (), rule.get("nonResourceRules") or ()
    if not resources and not urls:
        words = "at least one of resourceRules and nonResourceRules has to be non-empty"
        found.append(field.required(path, words))
    at = path.child("resourceRules")
    found += [p for i, r in enumerate(resources) for p in _check_resource_rule(r, at.index(i))]
    at = path.child("nonResourceRules")
    return found + [p for i, r in enumerate(urls) for p in _check_url_rule(r, at.index(i))]


class FlowSchemaStrategy(_Strategy["FlowSchema"]):
    def validate(self, obj: FlowSchema, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        precedence, at = spec.get("matchingPrecedence", 0), SPEC.child("matchingPrecedence")
        found: list[FieldError] = []
        if precedence <= 0:
            found.append(field.invalid(at, precedence, "must be a positive value"))
        if precedence > _HIGHEST_PRECEDENCE:
            found.append(field.invalid(at, precedence, f"must not be greater than {_HIGHEST_PRECEDENCE}"))
        if precedence == 1 and obj["metadata"].get("name") != _EXEMPT:
            words = "only the schema named 'exempt' may have matchingPrecedence 1"
            found.append(field.invalid(at, precedence, words))
        if (method := spec.get("distinguisherMethod")) is not None and method.get("type") not in _METHODS:
            at = SPEC.child("distinguisherMethod", "type")
            found.append(field.not_supported(at, method.get("type", ""), _METHODS))
        level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
        at = SPEC.child("priorityLevelConfiguration", "name")
        words = "must reference a priority level"
        found += checks.dns_subdomain(level, at) if level else [field.required(at, words)]
        at = SPEC.child("rules")
        found += [p for i, r in enumerate(spec.get("rules") or ()) for p in _check_rules(r, at.index(i))]
        return found + _check_conditions(obj)


def _schema_cells(obj: FlowSchema, now: float) -> Sequence[object]:
    spec, conditions = obj.get("spec", {}), obj.get("status", {}).get("conditions") or ()
    return (
        printers.name(obj),
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        (spec.get("distinguisherMethod") or {}).get("type", "<none>"),
        printers.age(obj, now),
        next((c.get("status", "") for c in conditions if c.get("type") == "Dangling"), "?"),
    )


FLOW_SCHEMA = Kind(
    group=_GROUP,
    kind="FlowSchema",
    plural="flowschemas",
    namespaced=False,
    versions=(Version(name="v1", type="flowcontrol/v1.FlowSchema", default=_default_schema),),
    storage="v1",
    strategy=FlowSchemaStrategy(),
    subresources={"status": _ConditionsStrategy["FlowSchema"]()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("PriorityLevel", description="The limit that the requests share."),
            Column("MatchingPrecedence", description="Lower ones are asked first."),
            Column("DistinguisherMethod", description="How requests are told apart."),
            printers.AGE,
            Column("MissingPL", description="Whether there is no such limit."),
        ),
        _schema_cells,
    ),
)


# -- priority levels


def _default_level(obj: PriorityLevelConfiguration) -> None:
    spec = obj.setdefault("spec", {})
    if (exempt := spec.get("exempt")) is not None:
        _set_missing(exempt, nominalConcurrencyShares=0, lendablePercent=0)
    if (limited := spec.get("limited")) is not None:
        _set_missing(limited, nominalConcurrencyShares=30, lendablePercent=0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            queuing["handSize"] = queuing.get("handSize") or 8
            queuing["queues"] = queuing.get("queues") or 64
            queuing["queueLengthLimit"] = queuing.get("queueLengthLimit") or 50


def _set_missing(part: Any, **values: int) -> None:
    for name, value in values.items():
        if part.get(name) is None:
            part[name] = value


def _check_queuing(queuing: QueuingConfiguration, path: Path) -> list[FieldError]:
    queues, hand = queuing.get("queues", 0), queuing.get("handSize", 0)
    length, found = queuing.get("queueLengthLimit", 0), []
    if length <= 0:
        found.append(field.invalid(path.child("queueLengthLimit"), length, "must be positive"))
    if queues <= 0:
        found.append(field.invalid(path.child("queues"), queues, "must be positive"))
    elif queues > _MOST_QUEUES:
        found.append(field.invalid(path.child("queues"), queues, f"must not be greater than {_MOST_QUEUES}"))
    at = path.child("handSize")
    if hand <= 0:
        found.append(field.invalid(at, hand, "must be positive"))
    elif hand > queues:
        found.append(field.invalid(at, hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _MOST_BITS:
        words = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_MOST_BITS}"
        found.append(field.invalid(at, hand, words))
    return found


def _check_response(response: LimitResponse, path: Path) -> list[FieldError]:
    kind, queuing, at = response.get("type", ""), response.get("queuing"), path.child("queuing")
    if kind == "Reject":
        words = "must be nil if limited.limitResponse.type is not Limited"
        return [] if queuing is None else [field.forbidden(at, words)]
    if kind == "Queue":
        words = "must not be empty if limited.limitResponse.type is Limited"
        return [field.required(at, words)] if queuing is None else _check_queuing(queuing, at)
    return checks.one_of(kind, path.child("type"), ("Queue", "Reject"))


def _check_percent(value: int | None, path: Path) -> list[FieldError]:
    if value is None or 0 <= value <= 100:
        return []
    return [field.invalid(path, value, "must be between 0 and 100, inclusive")]


def _check_limited(limited: LimitedPriorityLevelConfiguration, path: Path) -> list[FieldError]:
    shares, borrowed = limited.get("nominalConcurrencyShares") or 0, limited.get("borrowingLimitPercent")
    found: list[FieldError] = []
    if shares < 0:
        found.append(
            field.invalid(path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer")
        )
    found += _check_response(limited.get("limitResponse") or {}, path.child("limitResponse"))
    found += _check_percent(limited.get("lendablePercent"), path.child("lendablePercent"))
    if borrowed is not None and borrowed < 0:
        words = "if specified, must be a non-negative integer"
        found.append(field.invalid(path.child("borrowingLimitPercent"), borrowed, words))
    return found


class PriorityLevelConfigurationStrategy(_Strategy["PriorityLevelConfiguration"]):
    def validate(self, obj: PriorityLevelConfiguration, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
        found: list[FieldError] = []
        if (obj["metadata"].get("name") == _EXEMPT) != (kind == "Exempt"):
            words = "must be 'Exempt' if and only if `name` is 'exempt'"
            found.append(field.invalid(SPEC.child("type"), kind, words))
        at = SPEC.child("limited")
        if kind == "Exempt":
            found += (
                [] if limited is None else [field.forbidden(at, "must be nil if the type is not Limited")]
            )
            if exempt is not None:
                share = exempt.get("nominalConcurrencyShares") or 0
                path = SPEC.child("exempt", "nominalConcurrencyShares")
                found += [field.invalid(path, share, "must be a non-negative integer")] if share < 0 else []
                found += _check_percent(
                    exempt.get("lendablePercent"), SPEC.child("exempt", "lendablePercent")
                )
        elif kind == "Limited":
            if exempt is not None:
                found.append(field.forbidden(SPEC.child("exempt"), "must be nil if the type is Limited"))
            words = "must not be empty when type is Limited"
            found += [field.required(at, words)] if limited is None else _check_limited(limited, at)
        else:
            found += checks.one_of(kind, SPEC.child("type"), ("Exempt", "Limited"))
        return found + _check_conditions(obj)


def _level_cells(obj: PriorityLevelConfiguration, now: float) -> Sequence[object]:
    spec = obj.get("spec", {})
    limited = spec.get("limited")
    queuing: Mapping[str, Any] = ((limited or {}).get("limitResponse") or {}).get("queuing") or {}
    return (
        printers.name(obj),
        spec.get("type", ""),
        "<none>" if limited is None else limited.get("nominalConcurrencyShares") or 0,
        *(queuing.get(part, "<none>") for part in ("queues", "handSize", "queueLengthLimit")),
        printers.age(obj, now),
    )


PRIORITY_LEVEL_CONFIGURATION = Kind(
    group=_GROUP,
    kind="PriorityLevelConfiguration",
    plural="prioritylevelconfigurations",
    namespaced=False,
    versions=(Version(name="v1", type="flowcontrol/v1.PriorityLevelConfiguration", default=_default_level),),
    storage="v1",
    strategy=PriorityLevelConfigurationStrategy(),
    subresources={"status": _ConditionsStrategy["PriorityLevelConfiguration"]()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Type", description="Whether there is a limit at all."),
            Column("NominalConcurrencyShares", description="The share of all requests at once."),
            Column("Queues", description="How many queues there are."),
            Column("HandSize", description="How many queues a flow may use."),
            Column("QueueLengthLimit", description="How many requests wait in a queue."),
            printers.AGE,
        ),
        _level_cells,
    ),
)
KINDS = (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)
