"""Expressions of admission policies: ``object``, ``oldObject``, ``request``, ``params`` and the rest.

A policy's variables are expressions of their own that later ones may refer to. A variable is evaluated at its first
use, once per evaluation of the policy, and its cost counts against the same budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from dray.api.release import NEWEST
from dray.api.validation.field import quote
from dray.cel import compiler
from dray.cel.common import types as t
from dray.cel.common.decls import Environment, parse_type
from dray.cel.common.values import Value
from dray.cel.environment import mutation
from dray.cel.environment.base import COMPATIBILITY_RELEASE, PER_CALL_LIMIT, VARIABLES_TYPE, base
from dray.cel.errors import CompileError, EvaluationError
from dray.cel.interpreter.planner import Program
from dray.cel.library.authz import AUTHORIZER_TYPE, RESOURCE_CHECK_TYPE, Authorizer, ResourceCheck

BUDGET: Final = 10_000_000
"""What all expressions of a policy may cost for one request and binding."""

MATCH_CONDITIONS_BUDGET: Final = 2_500_000

_STRINGS: Final = t.list_of(t.STRING)
_KIND: Final = {"group": t.STRING, "version": t.STRING, "kind": t.STRING}
_RESOURCE: Final = {"group": t.STRING, "version": t.STRING, "resource": t.STRING}
_MESSAGES: Final[dict[str, dict[str, t.Type]]] = {
    "kubernetes.GroupVersionKind": dict(_KIND),
    "kubernetes.GroupVersionResource": dict(_RESOURCE),
    "kubernetes.UserInfo": {
        "username": t.STRING,
        "uid": t.STRING,
        "groups": _STRINGS,
        "extra": t.map_of(t.STRING, _STRINGS),
    },
    "kubernetes.AdmissionRequest": {
        "kind": t.object_type("kubernetes.GroupVersionKind"),
        "resource": t.object_type("kubernetes.GroupVersionResource"),
        "subResource": t.STRING,
        "requestKind": t.object_type("kubernetes.GroupVersionKind"),
        "requestResource": t.object_type("kubernetes.GroupVersionResource"),
        "requestSubResource": t.STRING,
        "name": t.STRING,
        "namespace": t.STRING,
        "operation": t.STRING,
        "userInfo": t.object_type("kubernetes.UserInfo"),
        "dryRun": t.BOOL,
        "options": t.DYN,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _STRINGS},
    "kubernetes.NamespaceCondition": {
        "status": t.STRING,
        "type": t.STRING,
        "lastTransitionTime": t.TIMESTAMP,
        "message": t.STRING,
        "reason": t.STRING,
    },
    "kubernetes.NamespaceStatus": {
        "conditions": t.list_of(t.object_type("kubernetes.NamespaceCondition")),
        "phase": t.STRING,
    },
    "kubernetes.NamespaceMetadata": {
        "name": t.STRING,
        "generateName": t.STRING,
        "namespace": t.STRING,
        "labels": t.map_of(t.STRING, t.STRING),
        "annotations": t.map_of(t.STRING, t.STRING),
        "UID": t.STRING,
        "creationTimestamp": t.TIMESTAMP,
        "deletionGracePeriodSeconds": t.INT,
        "deletionTimestamp": t.TIMESTAMP,
        "generation": t.INT,
        "resourceVersion": t.STRING,
        "finalizers": _STRINGS,
    },
    "kubernetes.Namespace": {
        "metadata": t.object_type("kubernetes.NamespaceMetadata"),
        "spec": t.object_type("kubernetes.NamespaceSpec"),
        "status": t.object_type("kubernetes.NamespaceStatus"),
    },
}


class OutOfBudget(EvaluationError):
    """The policy has spent what it may cost; nothing more of it is evaluated."""

    def __init__(self) -> None:
        super().__init__(
            "validation failed due to running out of cost budget, no further validation rules will be run"
        )


@lru_cache
def environment(
    *, params: bool, authorizer: bool, patch_types: bool = False, stored: bool = False
) -> Environment:
    """What an expression may refer to, its policy's variables aside."""
    variables = {
        "object": t.DYN,
        "oldObject": t.DYN,
        "namespaceObject": t.object_type("kubernetes.Namespace"),
        "request": t.object_type("kubernetes.AdmissionRequest"),
    }
    if params:
        variables["params"] = t.DYN
    if authorizer:
        variables["authorizer"] = AUTHORIZER_TYPE
        variables["authorizer.requestResource"] = RESOURCE_CHECK_TYPE
    known = base(NEWEST if stored else COMPATIBILITY_RELEASE)
    declared = known.with_messages(_MESSAGES).with_variables(variables)
    return mutation.with_mutation_types(declared) if patch_types else declared


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression of a policy."""

    text: str
    type: t.Type
    program: Program

    def evaluate(self, activation: Activation, budget: int) -> Evaluation:
        """The value or error, and what is left of the budget; OutOfBudget if nothing is."""
        try:
            value, spent = self.program.run(activation, PER_CALL_LIMIT)
        except EvaluationError as failed:
            # The limit of one call was passed: at least that much is gone.
            value, spent = failed, PER_CALL_LIMIT + 1
        budget -= activation.collect() + spent
        if budget < 0:
            raise OutOfBudget
        if isinstance(value, EvaluationError):
            error = EvaluationError(f"expression '{self.text}' resulted in error: {value.message}")
            return Evaluation(None, error, budget)
        return Evaluation(value, None, budget)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How an evaluation ended: a value or an error, and the budget left."""

    value: Value
    error: EvaluationError | None
    budget: int


@dataclass(frozen=True, slots=True)
class Variables:
    """A policy's variables, each compiled with those before it in sight."""

    compiled: Mapping[str, Expression | CompileError] = field(default_factory=dict)

    def declared(self, environment: Environment) -> Environment:
        """The environment with these variables in it."""
        fields = {
            name: _declared_type(found.type) if isinstance(found, Expression) else t.DYN
            for name, found in self.compiled.items()
        }
        return environment.with_messages({VARIABLES_TYPE: fields}).with_variables(
            {"variables": t.object_type(VARIABLES_TYPE)}
        )

    def adding(self, name: str, found: Expression | CompileError) -> Variables:
        return Variables({**self.compiled, name: found})


def _declared_type(found: t.Type) -> t.Type:
    """The type a variable is known by: what is neither plain nor a list or map of plain types is dyn."""
    match found.kind:
        case "list":
            return t.list_of(_declared_type(found.params[0]))
        case "map":
            return t.map_of(_declared_type(found.params[0]), _declared_type(found.params[1]))
        case "struct" | "opaque" | "type" | "param" | "error":
            return t.DYN
    return found


def compile(
    expression: str,
    *,
    params: bool = False,
    authorizer: bool = False,
    patch_types: bool = False,
    variables: Variables | None = None,
    results: Sequence[str] = ("bool",),
    stored: bool = False,
) -> Expression:
    """An expression, or CompileError in upstream's words.

    ``results`` are the types it may evaluate to, such as "bool" or "list(JSONPatch)"; none: any. Without
    ``variables`` there is no variable of that name at all.
    """
    declared = environment(params=params, authorizer=authorizer, patch_types=patch_types, stored=stored)
    if variables is not None:
        declared = variables.declared(declared)
        if patch_types:  # whose types, being without number, do not survive other declarations
            declared = mutation.with_mutation_types(declared)
    node = compiler.check_text(expression, declared)
    if results and not any(t.same(node.type, _result_type(name)) for name in results):
        wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
        raise CompileError(f"must evaluate to {wanted} but got {node.type}")
    return Expression(expression, node.type, compiler.program(node, declared))


def _result_type(name: str) -> t.Type:
    return t.NULL if name == "null_type" else parse_type(name)


def compile_variables(
    definitions: Sequence[tuple[str, str]],
    *,
    params: bool = False,
    authorizer: bool = False,
    patch_types: bool = False,
    stored: bool = True,
) -> Variables:
    """The variables of a policy in their order. An expression that uses one which does not compile fails."""
    variables = Variables()
    for name, text in definitions:
        found: Expression | CompileError
        try:
            found = compile(
                text,
                params=params,
                authorizer=authorizer,
                patch_types=patch_types,
                variables=variables,
                results=(),
                stored=stored,
            )
        except CompileError as wrong:
            found = wrong
        variables = variables.adding(name, found)
    return variables


class Activation(Mapping[str, Value]):
    """The values of one request that expressions see. Absent parts are null, except for the authorizer."""

    __slots__ = ("_spent", "_values")

    def __init__(
        self,
        *,
        object: Any = None,
        old_object: Any = None,
        request: Any = None,
        params: Any = None,
        namespace_object: Any = None,
        authorizer: Authorizer | None = None,
        request_resource: ResourceCheck | None = None,
        variables: Variables | None = None,
    ) -> None:
        self._spent = 0
        self._values: dict[str, Value] = {
            "object": object,
            "oldObject": old_object,
            "request": request,
            "params": params,
            "namespaceObject": namespace_object,
            "variables": _LazyVariables(variables or Variables(), self),
        }
        if authorizer is not None:
            self._values["authorizer"] = authorizer
        if request_resource is not None:
            self._values["authorizer.requestResource"] = request_resource

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def spend(self, cost: int) -> None:
        self._spent += cost

    def collect(self) -> int:
        """What variables have cost since the last call."""
        spent, self._spent = self._spent, 0
        return spent


class _LazyVariables(dict[str, Value]):
    """Variables by name, each evaluated at its first use."""

    __slots__ = ("_activation", "_compiled")

    def __init__(self, variables: Variables, activation: Activation) -> None:
        super().__init__()
        self._compiled = variables.compiled
        self._activation = activation

    def __missing__(self, name: str) -> Value:
        value = self[name] = self._evaluated(name, self._compiled[name])
        return value

    def _evaluated(self, name: str, found: Expression | CompileError) -> Value:
        head = f"composited variable {quote(name)} fails to"
        if isinstance(found, CompileError):
            return EvaluationError(f"{head} compile: {found.message}")
        try:
            value, spent = found.program.run(self._activation, PER_CALL_LIMIT)
        except EvaluationError as failed:
            value, spent = failed, PER_CALL_LIMIT + 1
        self._activation.spend(spent)
        if isinstance(value, EvaluationError):
            return EvaluationError(f"{head} evaluate: {value.message}")
        return value
