"""SubjectAccessReview, its local and self forms, and SelfSubjectRulesReview."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dray.api import errors
from dray.api.errors import BadRequest
from dray.api.scheme.kinds import Object
from dray.api.user import UserInfo
from dray.server import admission
from dray.server.admission.matchconditions import aggregate
from dray.server.apiserver import APIServer
from dray.server.auth.authorizer import Attributes, Decision
from dray.server.auth.rbac import PolicyRule
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import write_options
from dray.server.endpoints.responses import Response
from dray.server.registry.metadata import ensure_namespace

if TYPE_CHECKING:
    from dray.api.types.authorization import (
        SelfSubjectAccessReviewSpec,
        SelfSubjectRulesReview,
        SubjectAccessReviewSpec,
        SubjectAccessReviewStatus,
    )
    from dray.api.types.meta import FieldSelectorRequirement, LabelSelectorRequirement

GROUP = "authorization.k8s.io"

#: The rules of a user in a namespace, and what could not be found out about them.
RulesFor = Callable[[UserInfo, str], tuple[list[PolicyRule], list[str]]]
#: Why an authorizer cannot list its rules for a user; empty where it has none for them.
Unlisted = Callable[[UserInfo], str]


def install(api: APIServer, rules_for: RulesFor | None, *, unlisted: Sequence[Unlisted] = ()) -> None:
    """Teach an API the reviews. ``rules_for`` is None where no authorizer can list its rules."""

    async def rules(call: Call) -> Response:
        return await _rules_review(call, rules_for, unlisted)

    for plural, verb in (
        ("subjectaccessreviews", access_review),
        ("localsubjectaccessreviews", access_review),
        ("selfsubjectaccessreviews", self_access_review),
        ("selfsubjectrulesreviews", rules),
    ):
        api.handlers.register(GROUP, plural, "", {"create": verb})


async def read_review(call: Call, check: Callable[[Any], None]) -> Any:
    """The review that a call sends, admitted and checked."""
    options = write_options(call.request.query, "CreateOptions")
    review = call.api.decoder.versioned(call.request, call.codec, directive=options.directive)
    meta = review.setdefault("metadata", {})
    if call.resource.kind.namespaced:
        ensure_namespace(meta, call.info.namespace)
    attributes = call.attributes(
        admission.CREATE, obj=review, options=options.object("CreateOptions"), dry_run=options.dry_run
    )
    await call.api.admission.admit(attributes)
    check(review)
    await call.api.admission.validate(attributes)
    return review


def _checked(call: Call) -> Callable[[Any], None]:
    def check(review: Any) -> None:
        problems = call.resource.kind.strategy.validate(review, call.context("create"))
        if problems:
            # Upstream has forgotten the kind by now.
            raise errors.invalid("", GROUP, "", problems)

    return check


async def access_review(call: Call) -> Response:
    """May that user do this?"""
    review = await read_review(call, _checked(call))
    spec: SubjectAccessReviewSpec = review["spec"]
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    user = UserInfo(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)
    return _answer(call, review, user)


async def self_access_review(call: Call) -> Response:
    """May I do this?"""
    return _answer(call, await read_review(call, _checked(call)), call.user)


def _answer(call: Call, review: Any, user: UserInfo) -> Response:
    attributes, problem = _asked(review["spec"], user)
    verdict = call.api.authorizer.authorize(attributes)
    status: SubjectAccessReviewStatus = {"allowed": verdict.allowed}
    if verdict.decision is Decision.DENY:
        status["denied"] = True
    if verdict.reason:
        status["reason"] = verdict.reason
    if problem:
        status["evaluationError"] = problem
    review["status"] = status
    return Response(201, call.codec.object(review))


def _asked(
    spec: SubjectAccessReviewSpec | SelfSubjectAccessReviewSpec, user: UserInfo
) -> tuple[Attributes, str]:
    """What a review asks about, and what of its selectors could not be understood."""
    resource = spec.get("resourceAttributes")
    if resource is None:
        other = spec["nonResourceAttributes"]
        return Attributes(user, other.get("verb", ""), path=other.get("path", "") or "/"), ""
    selector = resource.get("fieldSelector") or {}
    fields, field_problem = selector.get("rawSelector"), ""
    if not fields:
        listed = [_field_requirement(r) for r in selector.get("requirements") or ()]
        fields, field_problem = _understood("fieldSelector", listed)
    label_selector = resource.get("labelSelector") or {}
    labels, label_problem = label_selector.get("rawSelector"), ""
    if not labels:
        listed = [_label_requirement(r) for r in label_selector.get("requirements") or ()]
        labels, label_problem = _understood("labelSelector", listed)
    attributes = Attributes(
        user,
        resource.get("verb", ""),
        resource.get("group", ""),
        resource.get("version", "") or "*",
        resource.get("resource", ""),
        resource.get("subresource", ""),
        resource.get("namespace", ""),
        resource.get("name", ""),
        field_selector=fields,
        label_selector=labels,
    )
    return attributes, "; ".join(p for p in (field_problem, label_problem) if p)


def _understood(key: str, listed: Sequence[str | None]) -> tuple[str, str]:
    """A selector as text. What cannot be understood is left out, which only asks for more."""
    understood = [text for text in listed if text is not None]
    if len(understood) == len(listed):
        return ",".join(understood), ""
    how = "partially ignored" if understood else "ignored"
    return ",".join(understood), f"spec.resourceAttributes.{key} {how} due to parse error"


def _field_requirement(requirement: FieldSelectorRequirement) -> str | None:
    sign = {"In": "=", "NotIn": "!="}.get(requirement.get("operator", ""))
    match requirement.get("values"):
        case [value] if sign is not None:
            return f"{requirement['key']}{sign}{value}"
    return None


def _label_requirement(requirement: LabelSelectorRequirement) -> str | None:
    key, values = requirement.get("key", ""), ",".join(requirement.get("values") or ())
    match requirement.get("operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
    return None


async def _rules_review(call: Call, rules_for: RulesFor | None, unlisted: Sequence[Unlisted]) -> Response:
    """What may I do in a namespace?"""

    def check(review: SelfSubjectRulesReview) -> None:
        if not (review.get("spec") or {}).get("namespace"):
            raise BadRequest("no namespace on request")

    review: SelfSubjectRulesReview = await read_review(call, check)
    rules, problems = rules_for(call.user, review["spec"]["namespace"]) if rules_for else ([], [])
    reasons = [reason for why in unlisted if (reason := why(call.user))]
    objects = [rule.object() for rule in rules]
    status: Object = {
        "resourceRules": [o for o in objects if "resources" in o],
        "nonResourceRules": [o for o in objects if "nonResourceURLs" in o],
        "incomplete": rules_for is None or bool(reasons),
    }
    if problems := [*reasons, *problems]:
        status["evaluationError"] = aggregate(problems)
    answer: Object = {"metadata": {}, "spec": {}, "status": status}
    return Response(201, call.codec.object(answer))
