"""The variables of CEL expressions in policies and match conditions: ``request``, ``namespaceObject``, ``authorizer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api import errors
from dray.api.scheme.kinds import GroupVersionKind, Object
from dray.api.user import UserInfo
from dray.server.admission import Attributes
from dray.server.admission.listers import Listers
from dray.server.admission.matcher import Matched, itself
from dray.server.auth import authorizer, serviceaccount
from dray.server.auth.authorizer import AuthorizerFunc

if TYPE_CHECKING:
    from dray.cel.environment.admission import Activation, Variables
    from dray.cel.library.authz import AuthorizationAttributes, Authorize

_NAMESPACE_METADATA: Final = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers"),
)


def admission_request(attributes: Attributes, matched: Matched) -> Object:
    """The request as an admission.k8s.io AdmissionRequest, without uid and objects."""
    own = itself(attributes)
    found: Object = {
        "kind": _kind(matched.kind),
        "resource": _resource(matched),
        "requestKind": _kind(own.kind),
        "requestResource": _resource(own),
    }
    if attributes.subresource:
        found["subResource"] = found["requestSubResource"] = attributes.subresource
    if attributes.name:
        found["name"] = attributes.name
    if attributes.namespace:
        found["namespace"] = attributes.namespace
    return found | {
        "operation": attributes.operation,
        "userInfo": {part: value for part, value in attributes.user.document().items() if value},
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }


def _kind(kind: GroupVersionKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(matched: Matched) -> Object:
    return {"group": matched.group, "version": matched.version, "resource": matched.resource}


def namespace_object(listers: Listers, attributes: Attributes) -> Object | None:
    """The namespace a request is for, with the metadata that expressions may see; None for objects of the cluster."""
    if not attributes.namespace or (attributes.kind == "Namespace" and not attributes.group):
        return None
    found = listers.namespace(attributes.namespace)
    if found is None:
        raise errors.not_found("namespaces", "", attributes.namespace)
    meta = found["metadata"]
    return {
        "metadata": {key: meta[key] for key in _NAMESPACE_METADATA if key in meta},
        "spec": found.get("spec", {}),
        "status": found.get("status", {}),
    }


def caching_authorizer(authorize: AuthorizerFunc, user: UserInfo) -> Authorize:
    """Answers the questions that an expression puts to ``authorizer``, each of them once a request."""
    from dray.cel.library.authz import Decision

    known: dict[AuthorizationAttributes, Decision] = {}

    def answer(question: AuthorizationAttributes) -> Decision:
        found = known.get(question)
        if found is None:
            verdict = authorize(_attributes(question, user))
            found = known[question] = Decision(verdict.allowed, verdict.reason)
        return found

    return answer


def _attributes(question: AuthorizationAttributes, user: UserInfo) -> authorizer.Attributes:
    if question.service_account is not None:
        namespace, name = question.service_account
        user = UserInfo(
            serviceaccount.ServiceAccount(namespace, name).user,
            groups=serviceaccount.service_account_groups(namespace),
        )
    if question.path:
        return authorizer.Attributes(user, question.verb, path=question.path)
    return authorizer.Attributes(
        user,
        question.verb,
        question.group,
        "*",
        question.resource,
        question.subresource,
        question.namespace,
        question.name,
        field_selector=question.field_selector,
        label_selector=question.label_selector,
    )


class Inputs:
    """Everything one policy's or webhook's expressions may see of one request."""

    __slots__ = ("_answer", "_attributes", "_namespace", "matched", "object", "old", "params")

    def __init__(
        self,
        attributes: Attributes,
        matched: Matched,
        answer: Authorize,
        *,
        params: Object | None = None,
        namespace: Object | None = None,
    ) -> None:
        self._attributes = attributes
        self._answer = answer
        self._namespace = namespace
        self.matched = matched
        self.params = params
        self.object = None if attributes.object is None else matched.codec.object(attributes.object)
        self.old = None if attributes.old is None else matched.codec.object(attributes.old)

    def with_params(self, params: Object | None) -> Inputs:
        return Inputs(self._attributes, self.matched, self._answer, params=params, namespace=self._namespace)

    def activation(
        self, variables: Variables | None = None, *, authorizer: bool = True, conditions: bool = False
    ) -> Activation:
        """The variables of one group of expressions.

        Match ``conditions`` see no namespace, and the request under the resource it was made for.
        """
        from dray.cel.environment.admission import Activation
        from dray.cel.library.authz import Authorizer, ResourceCheck

        attributes, own = self._attributes, itself(self._attributes)
        matched = own._replace(codec=self.matched.codec) if conditions else self.matched
        asked = Authorizer(self._answer)
        check = ResourceCheck(
            asked,
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.namespace,
            attributes.name,
        )
        return Activation(
            object=self.object,
            old_object=self.old,
            request=admission_request(attributes, matched),
            params=self.params,
            namespace_object=None if conditions else self._namespace,
            authorizer=asked if authorizer else None,
            request_resource=check if authorizer else None,
            variables=variables,
        )
