"""CEL for validation: what ``Context`` hands to rules. CEL itself is imported when the first expression is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from dray.api.textcache import cache_by_length
from dray.api.validation.expressions import CompilationResult, Environment, PolicyScope, Rule

if TYPE_CHECKING:
    from dray.api.types.apiextensions import JSONSchemaProps, ValidationRule


@cache_by_length(1 << 20)
def compile_expression(
    expression: str,
    *,
    environment: Environment = Environment.DEVICE,
    list_attributes: bool = False,
    consumable_capacity: bool = True,
) -> CompilationResult:
    """The verdict on a selector of devices or of named resources."""
    from dray.cel import CompileError, ErrorType

    try:
        match environment:
            case Environment.DEVICE:
                from dray.cel.environment import devices

                found = devices.compile(
                    expression, list_attributes=list_attributes, consumable_capacity=consumable_capacity
                )
                return CompilationResult(max_cost=found.max_cost)
            case Environment.NAMED_RESOURCES:
                from dray.cel.environment import named_resources

                named_resources.compile(expression)
                return CompilationResult()
            case Environment.DERIVED:
                from dray.cel import compiler
                from dray.cel.environment import devices

                declared = devices.environment(
                    list_attributes=list_attributes, consumable_capacity=consumable_capacity, stored=False
                )
                type_ = compiler.check_text(expression, declared).type
                if not devices.may_be_derived(type_):
                    scalars = (
                        "a primitive scalar (string, integer, boolean, semver) or a list of these scalars"
                    )
                    return CompilationResult(f"must evaluate to {scalars}, not {type_}")
                return CompilationResult()
    except CompileError as e:
        return CompilationResult(e.message, internal=e.type is ErrorType.INTERNAL)


def compile_rule(rule: Mapping[str, Any], schema: Mapping[str, Any], *, root: bool) -> Rule:
    """A rule over values of a structural schema."""
    from dray.cel.environment import validations

    return validations.compile_rule(cast("ValidationRule", rule), cast("JSONSchemaProps", schema), root=root)


@cache_by_length(1 << 18)
def compile_policy(expression: str, scope: PolicyScope) -> CompilationResult:
    """The verdict on an admission policy's expression, as ``Context.policies`` promises it."""
    from dray.cel import CompileError, ErrorType
    from dray.cel.environment import admission

    variables = None
    if scope.variables is not None:
        variables = admission.compile_variables(
            scope.variables,
            params=scope.params,
            authorizer=scope.authorizer,
            patch_types=scope.patches,
            stored=False,
        )
    try:
        admission.compile(
            expression,
            params=scope.params,
            authorizer=scope.authorizer,
            patch_types=scope.patches,
            variables=variables,
            results=scope.results,
        )
    except CompileError as e:
        return CompilationResult(e.message, internal=e.type is ErrorType.INTERNAL)
    return CompilationResult()
