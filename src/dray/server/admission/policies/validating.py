"""ValidatingAdmissionPolicy: CEL expressions that the objects of requests must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from dray.server.admission import Attributes, RequestScope
from dray.server.admission.activation import Inputs, caching_authorizer, namespace_object
from dray.server.admission.listers import Listers
from dray.server.admission.matchconditions import MatchConditions, compilation_error, compiled
from dray.server.admission.matcher import Matched, Matcher
from dray.server.admission.policies.dispatcher import Misconfigured, invocations
from dray.server.admission.policies.exclusion import excluded
from dray.server.admission.policies.sources import Binding, Policy, PolicySource
from dray.server.apiserver import APIServer

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import ValidatingAdmissionPolicy as AdmissionPolicy
    from dray.api.types.admissionregistration import Validation
    from dray.cel import CompileError
    from dray.cel.environment.admission import Activation, Expression

_CODES: Final = {"Forbidden": 403, "RequestEntityTooLarge": 413, "Unauthorized": 401, "Invalid": 422}
_FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"
_LONGEST_ANNOTATION: Final = 10 * 1024


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a policy refuses; ``index`` is that of the validation."""

    message: str
    reason: str = ""
    index: int = 0


@dataclass(slots=True)
class Findings:
    """What one evaluation of a policy says."""

    denials: list[Denial] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)
    #: of audit annotations; they deny whatever the binding's actions are
    failures: list[str] = field(default_factory=list)


class Validator:
    """A compiled policy."""

    def __init__(self, policy: AdmissionPolicy) -> None:
        from dray.cel.environment.admission import compile_variables

        spec = policy.get("spec", {})
        params = spec.get("paramKind") is not None
        self._ignore = spec.get("failurePolicy") == "Ignore"
        definitions = [(v.get("name", ""), v.get("expression", "")) for v in spec.get("variables") or ()]
        self._variables = compile_variables(definitions, params=params, authorizer=True)
        self._conditions = MatchConditions(
            spec.get("matchConditions") or (),
            params=params,
            variables=self._variables,
            ignore_failures=self._ignore,
        )
        self._validations = spec.get("validations") or ()
        self._expressions = [
            compiled(v.get("expression", ""), params=params, variables=self._variables)
            for v in self._validations
        ]
        self._messages = [
            compiled(
                v["messageExpression"],
                params=params,
                authorizer=False,
                variables=self._variables,
                results=("string",),
            )
            if v.get("messageExpression")
            else None
            for v in self._validations
        ]
        self._annotations = [
            (
                a.get("key", ""),
                a.get("valueExpression", ""),
                compiled(
                    a.get("valueExpression", ""),
                    params=params,
                    variables=self._variables,
                    results=("string", "null_type"),
                ),
            )
            for a in spec.get("auditAnnotations") or ()
        ]

    def evaluate(self, inputs: Inputs) -> Findings:
        from dray.cel.environment.admission import OutOfBudget

        verdict = self._conditions.hold(inputs)
        if verdict.error:
            return self._failed(verdict.error)
        if not verdict.matches:
            return Findings()
        found = Findings()
        try:
            self._validate(inputs, found)
            self._annotate(inputs, found)
        except OutOfBudget as e:
            return self._failed(e.message)
        return found

    def _failed(self, message: str) -> Findings:
        return Findings([] if self._ignore else [Denial(message)])

    # -- validations

    def _validate(self, inputs: Inputs, found: Findings) -> None:
        from dray.cel.environment.admission import BUDGET

        activation = inputs.activation(self._variables)
        budget = BUDGET
        broken: list[tuple[int, str]] = []  # the message is empty where the expression is just not true
        for index, expression in enumerate(self._expressions):
            outcome = _evaluate(expression, activation, budget)
            budget = outcome.budget
            if outcome.error:
                broken.append((index, outcome.error))
            elif outcome.value is not True:
                broken.append((index, ""))
        messages, failure = self._evaluate_messages(inputs, budget, needed=bool(broken))
        errors = dict(broken)
        for index in range(len(self._expressions)):
            error = errors.get(index)
            if error or failure:
                if not self._ignore:
                    found.denials.append(Denial(error or f"failed messageExpression: {failure}", index=index))
            elif error is not None:
                validation = self._validations[index]
                message = self._message(validation, messages[index] if messages else None)
                found.denials.append(Denial(message, validation.get("reason") or "Invalid", index))

    def _evaluate_messages(self, inputs: Inputs, budget: int, *, needed: bool) -> tuple[list[object], str]:
        """What the message expressions give, and why they could not all be evaluated."""
        from dray.cel.environment.admission import OutOfBudget
        from dray.cel.environment.base import PER_CALL_LIMIT

        # They are evaluated for their cost even where nothing is refused; that can be left out if they cannot fail.
        calls = sum(m is not None for m in self._messages) + len(self._variables.compiled)
        if not needed and calls * (PER_CALL_LIMIT + 1) <= budget:
            return [], ""
        activation = inputs.activation(self._variables, authorizer=False)
        values: list[object] = []
        for message in self._messages:
            if message is None:
                values.append(None)
                continue
            try:
                outcome = _evaluate(message, activation, budget)
            except OutOfBudget as e:
                return [], e.message
            budget = outcome.budget
            values.append(outcome.value)
        return values, ""

    def _message(self, validation: Validation, made: object) -> str:
        from dray.cel.environment.base import MAX_MESSAGE

        if isinstance(made, str):
            text = made.strip()
            if text and len(text.encode()) <= MAX_MESSAGE and "\n" not in text:
                return text
        return (
            validation.get("message", "").strip()
            or f"failed expression: {validation.get('expression', '').strip()}"
        )

    # -- audit annotations

    def _annotate(self, inputs: Inputs, found: Findings) -> None:
        if not self._annotations:
            return
        from dray.cel.common.values import type_of
        from dray.cel.environment.admission import BUDGET

        activation = inputs.activation(self._variables, authorizer=False)
        budget = BUDGET
        for key, text, expression in self._annotations:
            outcome = _evaluate(expression, activation, budget)
            budget = outcome.budget
            if outcome.error:
                if not self._ignore:
                    found.failures.append(outcome.error)
            elif isinstance(outcome.value, str):
                if value := outcome.value.strip():
                    found.annotations.append((key, value))
            elif outcome.value is not None:
                found.failures.append(
                    f"valueExpression '{text}' resulted in unsupported return type: "
                    f"{type_of(outcome.value)}. Return type must be either string or null."
                )


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: object
    error: str
    budget: int


def _evaluate(expression: Expression | CompileError, activation: Activation, budget: int) -> _Outcome:
    from dray.cel.environment.admission import Expression

    if not isinstance(expression, Expression):
        return _Outcome(None, compilation_error(expression), budget)
    found = expression.evaluate(activation, budget)
    return _Outcome(found.value, "" if found.error is None else found.error.message, found.budget)


class ValidatingAdmissionPolicy:
    """The plugin."""

    name = "ValidatingAdmissionPolicy"

    def __init__(self, api: APIServer, listers: Listers, matcher: Matcher) -> None:
        self._api = api
        self._listers = listers
        self._matcher = matcher
        self._source: PolicySource[Validator] = PolicySource(api, matcher, "validating", Validator)

    def handles(self, scope: RequestScope) -> bool:
        return not excluded(scope) and bool(self._source.hooks(scope))

    def on_change(self, forget: Callable[[], None]) -> None:
        self._source.on_change(forget)

    async def validate(self, attributes: Attributes) -> None:
        request = _Request(attributes)
        inputs: dict[Matched, Inputs] = {}
        for found in invocations(self._source, self._matcher, attributes):
            if isinstance(found, Misconfigured):
                request.misconfigured(found)
                continue
            seen = inputs.get(found.matched)
            if seen is None:
                seen = inputs[found.matched] = self._inputs(attributes, found.matched)
            if found.param is not None:
                seen = seen.with_params(found.param)
            request.apply(found.policy, found.binding, found.policy.evaluator.evaluate(seen))
        request.conclude()

    def _inputs(self, attributes: Attributes, matched: Matched) -> Inputs:
        answer = caching_authorizer(self._api.authorizer.authorize, attributes.user)
        return Inputs(attributes, matched, answer, namespace=namespace_object(self._listers, attributes))


class _Request:
    """What policies have found about one request."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._denied: list[tuple[str, Binding | None, Denial]] = []
        self._annotations: dict[str, list[str]] = {}

    def misconfigured(self, found: Misconfigured[Validator]) -> None:
        if not found.policy.ignores_failures:
            self._denied.append((found.policy.name, found.binding, Denial(found.message)))

    def apply(self, policy: Policy[Validator], binding: Binding, found: Findings) -> None:
        actions: Sequence[str] = binding.spec.get("validationActions") or ()
        for denial in found.denials:
            for action in actions:
                match action:
                    case "Deny":
                        self._denied.append((policy.name, binding, denial))
                    case "Audit":
                        self._note(policy, binding, denial)
                    case "Warn":
                        self._attributes.warn(
                            f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                            f"'{binding.name}': {denial.message}"
                        )
        for key, value in found.annotations:
            cut = value.encode()[:_LONGEST_ANNOTATION].decode(errors="ignore")
            values = self._annotations.setdefault(f"{policy.name}/{key}", [])
            if cut not in values:
                values.append(cut)
        self._denied += ((policy.name, binding, Denial(failure)) for failure in found.failures)

    def _note(self, policy: Policy[Validator], binding: Binding, denial: Denial) -> None:
        failure = {
            "message": denial.message,
            "policy": policy.name,
            "binding": binding.name,
            "expressionIndex": denial.index,
            "validationActions": binding.spec.get("validationActions"),
        }
        self._attributes.annotate(_FAILURE, msgspec.json.encode([failure]).decode())

    def conclude(self) -> None:
        """Refuse if any policy does; the first refusal is the one that is told."""
        for key, values in self._annotations.items():
            self._attributes.annotate(key, ", ".join(values))
        if not self._denied:
            return
        policy, binding, denial = self._denied[0]
        by = f"ValidatingAdmissionPolicy '{policy}'"
        if binding is not None:
            by += f" with binding '{binding.name}'"
        message = f"{by} denied request: {denial.message}"
        error = self._attributes.forbidden(message)
        assert error.details is not None
        error.details["causes"] = [{"message": message}]
        error.status_reason = denial.reason or "Invalid"
        error.http_code = _CODES.get(error.status_reason, 422)
        raise error
