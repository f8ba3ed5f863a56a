"""What a server injects into rules so that they can judge CEL: expressions of policies, rules of schemas."""

from __future__ import annotations

from dray.api.expressions import Scope, Verdict
from dray.cel import CompileError, admission
from dray.cel.validations import compile_rule

__all__ = ["compile_policy", "compile_rule"]


def compile_policy(expression: str, scope: Scope) -> Verdict:
    flags = {"params": scope.params, "authorizer": scope.authorizer, "patch_types": scope.patches}
    variables = None
    if scope.variables is not None:
        variables = admission.compile_variables(scope.variables, **flags)
    try:
        admission.compile(expression, **flags, variables=variables, results=scope.results)
    except CompileError as problem:
        return Verdict(problem.message)
    return Verdict()
