"""What a server injects into rules so that they can judge CEL: expressions of policies, rules of schemas."""

from __future__ import annotations

from dray.api.validation.expressions import CompilationResult, PolicyScope
from dray.cel import CompileError
from dray.cel.environment import admission
from dray.cel.environment.validations import compile_rule

__all__ = ["compile_policy", "compile_rule"]


def compile_policy(expression: str, scope: PolicyScope) -> CompilationResult:
    flags = {"params": scope.params, "authorizer": scope.authorizer, "patch_types": scope.patches}
    variables = None
    if scope.variables is not None:
        variables = admission.compile_variables(scope.variables, **flags)
    try:
        admission.compile(expression, **flags, variables=variables, results=scope.results)
    except CompileError as problem:
        return CompilationResult(problem.message)
    return CompilationResult()
