"""Questions to the authorizer: ``authorizer.group("apps").resource("deployments").check("create").allowed()``.

The server passes in the authorizer: a function from the attributes of a request to a decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from dray.api.validation import names
from dray.cel.common import types as t
from dray.cel.common.decls import Library, overload
from dray.cel.errors import EvaluationError

_PREFIX: Final = "kubernetes.authorization."
AUTHORIZER_TYPE: Final = t.object_type(_PREFIX + "Authorizer")
PATH_CHECK_TYPE: Final = t.object_type(_PREFIX + "PathCheck")
GROUP_CHECK_TYPE: Final = t.object_type(_PREFIX + "GroupCheck")
RESOURCE_CHECK_TYPE: Final = t.object_type(_PREFIX + "ResourceCheck")
DECISION_TYPE: Final = t.object_type(_PREFIX + "Decision")


@dataclass(frozen=True, slots=True)
class AuthorizationAttributes:
    """What the authorizer decides about. ``service_account`` is the namespace and name of one other than the requester."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    service_account: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The authorizer's answer."""

    allowed: bool
    reason: str = ""
    error: str = ""
    errored: bool = False

    cel_type: ClassVar[t.Type] = DECISION_TYPE
    go_type: ClassVar[str] = "library.decisionVal"


Authorize = Callable[[AuthorizationAttributes], Decision]


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The variable ``authorizer``."""

    authorize: Authorize = field(compare=False)
    service_account: tuple[str, str] | None = None

    cel_type: ClassVar[t.Type] = AUTHORIZER_TYPE
    go_type: ClassVar[str] = "library.authorizerVal"


@dataclass(frozen=True, slots=True)
class PathCheck:
    authorizer: Authorizer
    path: str

    cel_type: ClassVar[t.Type] = PATH_CHECK_TYPE
    go_type: ClassVar[str] = "library.pathCheckVal"


@dataclass(frozen=True, slots=True)
class GroupCheck:
    authorizer: Authorizer
    group: str

    cel_type: ClassVar[t.Type] = GROUP_CHECK_TYPE
    go_type: ClassVar[str] = "library.groupCheckVal"


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    """A question about a resource in the making; also the variable ``authorizer.requestResource``."""

    authorizer: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""

    cel_type: ClassVar[t.Type] = RESOURCE_CHECK_TYPE
    go_type: ClassVar[str] = "library.resourceCheckVal"


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, path)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.dns1123_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns1123_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return replace(authorizer, service_account=(namespace, name))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.authorizer, check.group, resource)


def _with(attribute: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def changed(check: ResourceCheck, value: str) -> ResourceCheck:
        changes: dict[str, Any] = {attribute: value}
        return replace(check, **changes)

    return changed


def _check_path(check: PathCheck, verb: str) -> Decision:
    asked = AuthorizationAttributes(verb, path=check.path, service_account=check.authorizer.service_account)
    return check.authorizer.authorize(asked)


def _check_resource(check: ResourceCheck, verb: str) -> Decision:
    return check.authorizer.authorize(
        AuthorizationAttributes(
            verb,
            group=check.group,
            resource=check.resource,
            subresource=check.subresource,
            namespace=check.namespace,
            name=check.name,
            field_selector=check.field_selector,
            label_selector=check.label_selector,
            service_account=check.authorizer.service_account,
        )
    )


_A, _P, _G, _R, _D = (
    _PREFIX + name for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)

AUTHZ: Final = Library(
    name="kubernetes.authz",
    types=(AUTHORIZER_TYPE, PATH_CHECK_TYPE, GROUP_CHECK_TYPE, RESOURCE_CHECK_TYPE, DECISION_TYPE),
    overloads=(
        overload("path", "authorizer_path", f"{_A}.(string) -> {_P}", _path),
        overload("group", "authorizer_group", f"{_A}.(string) -> {_G}", GroupCheck),
        overload(
            "serviceAccount", "authorizer_serviceaccount", f"{_A}.(string, string) -> {_A}", _service_account
        ),
        overload("resource", "groupcheck_resource", f"{_G}.(string) -> {_R}", _resource),
        overload("subresource", "resourcecheck_subresource", f"{_R}.(string) -> {_R}", _with("subresource")),
        overload("namespace", "resourcecheck_namespace", f"{_R}.(string) -> {_R}", _with("namespace")),
        overload("name", "resourcecheck_name", f"{_R}.(string) -> {_R}", _with("name")),
        overload("check", "pathcheck_check", f"{_P}.(string) -> {_D}", _check_path),
        overload("check", "resourcecheck_check", f"{_R}.(string) -> {_D}", _check_resource),
        overload("errored", "decision_errored", f"{_D}.() -> bool", lambda d: d.errored),
        overload("error", "decision_error", f"{_D}.() -> string", lambda d: d.error),
        overload("allowed", "decision_allowed", f"{_D}.() -> bool", lambda d: d.allowed),
        overload("reason", "decision_reason", f"{_D}.() -> string", lambda d: d.reason),
    ),
)

AUTHZ_SELECTORS: Final = Library(
    name="kubernetes.authzSelectors",
    types=(RESOURCE_CHECK_TYPE,),
    overloads=(
        overload(
            "fieldSelector", "authorizer_fieldselector", f"{_R}.(string) -> {_R}", _with("field_selector")
        ),
        overload(
            "labelSelector", "authorizer_labelselector", f"{_R}.(string) -> {_R}", _with("label_selector")
        ),
    ),
)
