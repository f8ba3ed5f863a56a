"""Writes into the status of ValidatingAdmissionPolicies which of their expressions do not fit the kinds they match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dray.api import schema
from dray.api.schema import Struct
from dray.api.schema.structural import structural_type
from dray.api.scheme.registry import scheme
from dray.client.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from dray.controllers.controller import Controller, ControllerContext

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import (
        ExpressionWarning,
        ParamKind,
        TypeChecking,
        ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicySpec,
    )
    from dray.api.types.apiextensions import CustomResourceDefinition, JSONSchemaProps

    Definitions = Callable[[str], CustomResourceDefinition | None]


POLICIES: Final[Resource[ValidatingAdmissionPolicy]] = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
_MAX_KINDS: Final = 10


class _Kind(NamedTuple):
    group: str
    version: str
    kind: str
    type: Struct

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


def _no_definition(name: str) -> None:
    return None


def kinds_of(policy: ValidatingAdmissionPolicy, definitions: Definitions = _no_definition) -> list[_Kind]:
    """The kinds that a policy's rules name. A rule with wildcards says too little to check anything. ``definitions`` finds
    the definition of a custom resource by its name."""
    found: dict[tuple[str, str, str], _Kind] = {}
    for rule in (policy["spec"].get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in name for name in (*groups, *versions)):
            continue
        plurals = sorted(r for r in rule.get("resources") or () if "*" not in r and "/" not in r)
        count = 0
        for group, version, plural in (
            (g, v, p) for g in sorted(groups) for v in sorted(versions) for p in plurals
        ):
            kind = _built_in(group, version, plural) or _custom(definitions(f"{plural}.{group}"), version)
            if kind is not None and count < _MAX_KINDS:
                count += 1
                found[group, version, kind.kind] = kind
    return [found[key] for key in sorted(found)]


def _built_in(group: str, version: str, plural: str) -> _Kind | None:
    found = scheme().by_plural(group, version, plural)
    if found is None or not found.version.type:
        return None
    return _Kind(group, version, found.kind.kind, schema.type_of(found.version.type))


def _custom(definition: CustomResourceDefinition | None, version: str) -> _Kind | None:
    if definition is None:
        return None
    spec = definition["spec"]
    group, kind = spec["group"], spec["names"]["kind"]
    for served in spec["versions"]:
        if served["name"] == version and served.get("served"):
            content = (served.get("schema") or {}).get("openAPIV3Schema")
            known = None if content is None else _without_formats(content)
            return _Kind(group, version, kind, structural_type(f"{group}/{version}.{kind}", known))
    return None


def _without_formats(content: Any) -> Any:
    """A schema in which strings that expressions see as times, durations or bytes can be anything."""
    props: JSONSchemaProps = content
    if isinstance(content, Mapping):
        if props.get("type") == "string" and props.get("format"):
            return {}
        return {key: _without_formats(value) for key, value in content.items()}
    return content


def expression_warnings(
    policy: ValidatingAdmissionPolicy, definitions: Definitions = _no_definition
) -> list[ExpressionWarning]:
    """What is wrong with a policy's validations and messages, kind by kind."""
    spec = policy["spec"]
    kinds = kinds_of(policy, definitions)
    if not kinds:
        return []
    return [
        {"fieldRef": path, "warning": text}
        for path, expression in _expressions(spec)
        if (text := _problems(expression, spec, kinds))
    ]


def _expressions(spec: ValidatingAdmissionPolicySpec) -> Iterator[tuple[str, str]]:
    for i, validation in enumerate(spec.get("validations") or ()):
        for part in ("expression", "messageExpression"):
            if validation.get(part):
                yield f"spec.validations[{i}].{part}", validation[part]


def _problems(expression: str, spec: ValidatingAdmissionPolicySpec, kinds: Sequence[_Kind]) -> str:
    from dray.cel.environment import type_checker

    variables = [(v.get("name", ""), v.get("expression", "")) for v in spec.get("variables") or ()]
    param_kind = spec.get("paramKind")
    params_type = None if param_kind is None else _type_of(param_kind)
    found = []
    for kind in kinds:
        declared = type_checker.environment(kind.type, params_type, params=param_kind is not None)
        if text := type_checker.type_errors(expression, declared, variables):
            found.append(f"{kind}: {text}\n")
    return "\n".join(found)


def _type_of(kind: ParamKind) -> Struct | None:
    group, _, version = kind.get("apiVersion", "").rpartition("/")
    found = scheme().by_kind(group, version, kind.get("kind", ""))
    return schema.type_of(found.version.type) if found is not None and found.version.type else None


class ValidatingAdmissionPolicyStatusController(Controller[str]):
    """Looks at every generation of a policy once."""

    name = "validatingadmissionpolicy-status-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._policies = context.informers.get(context.resource(POLICIES))
        self._definitions = context.informers.get(context.resource(CUSTOM_RESOURCE_DEFINITIONS))
        self._policies.add_handler(on_add=self._changed, on_update=lambda old, new: self._changed(new))

    def _changed(self, policy: ValidatingAdmissionPolicy) -> None:
        self.enqueue(policy["metadata"]["name"])

    async def sync(self, key: str) -> float | None:
        policy = self._policies.get("", key)
        if policy is None:
            return None
        generation = policy["metadata"].get("generation", 0)
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return None
        found = expression_warnings(policy, lambda name: self._definitions.get("", name))
        checked: TypeChecking = {"expressionWarnings": found} if found else {}
        await self.context.client.apply(
            POLICIES,
            "",
            {
                "metadata": {"name": key},
                "status": {"observedGeneration": generation, "typeChecking": checked},
            },
            field_manager=self.name,
            force=True,
            subresource="status",
        )
        return None
