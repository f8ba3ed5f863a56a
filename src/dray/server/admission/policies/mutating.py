"""MutatingAdmissionPolicy: expressions that change the objects of requests.

A policy whose reinvocationPolicy is IfNeeded runs again when later ones have changed the object after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.api.errors import BadRequest, StatusError
from dray.api.objects import clone
from dray.api.scheme.kinds import Object
from dray.server.admission import CONNECT, DELETE, Attributes, RequestScope
from dray.server.admission.activation import Inputs, caching_authorizer, namespace_object
from dray.server.admission.listers import Listers
from dray.server.admission.matchconditions import MatchConditions, compiled
from dray.server.admission.matcher import Matcher
from dray.server.admission.mutation import decode_mutated
from dray.server.admission.policies.dispatcher import Invocation, Misconfigured, invocations
from dray.server.admission.policies.exclusion import excluded
from dray.server.admission.policies.patch import PatchError, apply_configuration, json_patch
from dray.server.admission.policies.sources import PolicySource
from dray.server.admission.reinvocation import ReinvokeContext, reinvoke_context
from dray.server.apiserver import APIServer

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import MutatingAdmissionPolicy as AdmissionPolicy
    from dray.cel import CompileError
    from dray.cel.environment.admission import Expression

#: The type of a mutation's expression.
_RESULTS = {"ApplyConfiguration": "Object", "JSONPatch": "list(JSONPatch)"}


class Mutator:
    """A compiled policy."""

    def __init__(self, policy: AdmissionPolicy) -> None:
        from dray.cel.environment.admission import compile_variables

        spec = policy.get("spec", {})
        params = spec.get("paramKind") is not None
        definitions = [(v.get("name", ""), v.get("expression", "")) for v in spec.get("variables") or ()]
        self._variables = compile_variables(definitions, params=params, authorizer=True)
        self.conditions = MatchConditions(
            spec.get("matchConditions") or (),
            params=params,
            variables=self._variables,
            ignore_failures=spec.get("failurePolicy") == "Ignore",
        )
        self.reinvocable = spec.get("reinvocationPolicy") == "IfNeeded"
        self.mutations: list[tuple[str, Expression | CompileError]] = []
        for mutation in spec.get("mutations") or ():
            kind = mutation.get("patchType", "")
            part = mutation.get("applyConfiguration" if kind == "ApplyConfiguration" else "jsonPatch") or {}
            expression = compiled(
                part.get("expression", ""),
                params=params,
                patch_types=True,
                variables=self._variables,
                results=(_RESULTS[kind],),
            )
            self.mutations.append((kind, expression))

    def mutated(self, kind: str, expression: Expression | CompileError, inputs: Inputs) -> Object:
        """The object after one mutation, in the version that it was matched in; PatchError if there is none."""
        from dray.cel.environment.admission import BUDGET, Expression, OutOfBudget

        if not isinstance(expression, Expression):
            raise PatchError(expression.message)
        try:
            outcome = expression.evaluate(inputs.activation(self._variables), BUDGET)
        except OutOfBudget as e:
            raise PatchError(e.message) from None
        if outcome.error is not None:
            raise PatchError(outcome.error.message)
        assert inputs.object is not None
        apply: Any = apply_configuration if kind == "ApplyConfiguration" else json_patch
        found: Object = apply(inputs.matched.codec, inputs.object, outcome.value)
        return found


class _Key(NamedTuple):
    """What is remembered of an invocation between the two rounds."""

    policy: str
    binding: str
    param: tuple[str, str] | None


class MutatingAdmissionPolicy:
    """The plugin."""

    name = "MutatingAdmissionPolicy"

    def __init__(self, api: APIServer, listers: Listers, matcher: Matcher) -> None:
        self._api = api
        self._listers = listers
        self._matcher = matcher
        self._source: PolicySource[Mutator] = PolicySource(api, matcher, "mutating", Mutator)

    def handles(self, scope: RequestScope) -> bool:
        # A deletion has no object to change; what connects has one that is of no kind.
        if scope.operation in (DELETE, CONNECT):
            return False
        return not excluded(scope) and bool(self._source.hooks(scope))

    def on_change(self, forget: Callable[[], None]) -> None:
        self._source.on_change(forget)

    async def admit(self, attributes: Attributes) -> None:
        refusals: list[tuple[str, str]] = []  # message and reason
        relevant: list[Invocation[Mutator]] = []
        for found in invocations(self._source, self._matcher, attributes):
            if isinstance(found, Invocation):
                relevant.append(found)
            elif not found.policy.ignores_failures:
                refusals.append((_refusal(found, found.message), ""))
        if relevant:
            refusals += self._run(relevant, attributes)
        if refusals:
            raise _refused(attributes, refusals)

    def _run(self, relevant: Sequence[Invocation[Mutator]], attributes: Attributes) -> list[tuple[str, str]]:
        shared = attributes.reinvocation_context()
        context: ReinvokeContext[_Key] = reinvoke_context(self.name, attributes)
        namespace = namespace_object(self._listers, attributes)
        answer = caching_authorizer(self._api.authorizer.authorize, attributes.user)
        refusals: list[tuple[str, str]] = []
        for invocation in relevant:
            policy, matched = invocation.policy, invocation.matched
            inputs = Inputs(attributes, matched, answer, params=invocation.param, namespace=namespace)
            verdict = policy.evaluator.conditions.hold(inputs)
            if verdict.error and not policy.ignores_failures:
                refusals.append((_refusal(invocation, verdict.error), "Invalid"))
            if not verdict.matches:
                continue
            key = _key(invocation)
            if context.skips(key, shared):
                continue
            before = clone(attributes.object)
            for kind, expression in policy.evaluator.mutations:
                try:
                    mutated = policy.evaluator.mutated(kind, expression, inputs)
                    decode_mutated(self._api, mutated, matched.codec, attributes)
                except (PatchError, BadRequest) as e:
                    if not policy.ignores_failures:
                        refusals.append((_refusal(invocation, str(e)), "Invalid"))
                    continue
                inputs = Inputs(attributes, matched, answer, params=invocation.param, namespace=namespace)
            if attributes.object != before:
                context.require_reinvoking(shared)
            if policy.evaluator.reinvocable:
                context.previously_invoked.add(key)
        context.set_last_output(attributes)
        return refusals


def _key(invocation: Invocation[Mutator]) -> _Key:
    param = None
    if invocation.param is not None:
        meta = invocation.param["metadata"]
        param = (meta.get("namespace", ""), meta.get("name", ""))
    return _Key(invocation.policy.name, invocation.binding.name, param)


def _refusal(found: Invocation[Mutator] | Misconfigured[Mutator], problem: str) -> str:
    if found.binding is None:
        return f'policy "{found.policy.name}" denied request: {problem}'
    return f"policy '{found.policy.name}' with binding '{found.binding.name}' denied request: {problem}"


def _refused(attributes: Attributes, refusals: Sequence[tuple[str, str]]) -> StatusError:
    error = attributes.forbidden("")
    assert error.details is not None
    error.message, reason = refusals[0]
    error.status_reason = reason or error.status_reason
    error.details["causes"] = [{"message": message} for message, _ in refusals]
    return error
