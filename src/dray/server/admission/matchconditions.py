"""Match conditions: CEL expressions that decide whether a policy or webhook applies to a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dray.server.admission.activation import Inputs

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import MatchCondition
    from dray.cel import CompileError
    from dray.cel.environment.admission import Expression, Variables


class MatchResult(NamedTuple):
    """Whether all conditions hold, or why that cannot be told."""

    matches: bool
    error: str = ""


class MatchConditions:
    """The conditions of one policy or webhook, compiled. One that is false settles the matter, whatever fails."""

    def __init__(
        self,
        parts: Sequence[MatchCondition],
        *,
        params: bool = False,
        variables: Variables | None = None,
        ignore_failures: bool = False,
    ) -> None:
        self._ignore = ignore_failures
        self._variables = variables
        self._compiled = [
            compiled(part.get("expression", ""), params=params, variables=variables) for part in parts
        ]

    def hold(self, inputs: Inputs) -> MatchResult:
        if not self._compiled:
            return MatchResult(True)
        from dray.cel.environment.admission import MATCH_CONDITIONS_BUDGET, Expression, OutOfBudget

        activation = inputs.activation(self._variables, conditions=True)
        budget = MATCH_CONDITIONS_BUDGET
        problems: list[str] = []
        outcomes = []
        for condition in self._compiled:
            if not isinstance(condition, Expression):
                problems.append(compilation_error(condition))
                continue
            try:
                found = condition.evaluate(activation, budget)
            except OutOfBudget as e:
                return self._failed([e.message])
            budget = found.budget
            if found.error is not None:
                problems.append(found.error.message)
            outcomes.append(found.value)
        if any(value is False for value in outcomes):
            return MatchResult(False)
        return self._failed(problems) if problems else MatchResult(True)

    def _failed(self, problems: Sequence[str]) -> MatchResult:
        if self._ignore:
            return MatchResult(False)
        return MatchResult(False, aggregate(problems))


def compiled(
    expression: str,
    *,
    params: bool = False,
    authorizer: bool = True,
    patch_types: bool = False,
    variables: Variables | None = None,
    results: Sequence[str] = ("bool",),
) -> Expression | CompileError:
    """A stored expression, or what is wrong with it: that shows when it is needed."""
    from dray.cel import CompileError
    from dray.cel.environment import admission

    try:
        return admission.compile(
            expression,
            params=params,
            authorizer=authorizer,
            patch_types=patch_types,
            variables=variables,
            results=results,
            stored=True,
        )
    except CompileError as e:
        return e


def compilation_error(error: CompileError) -> str:
    return f"compilation error: {error.message}"


def aggregate(problems: Sequence[str]) -> str:
    """Several errors as one text, each said once."""
    texts = list(dict.fromkeys(problems))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
