"""What validation asks of whoever compiles CEL: an expression in, a verdict out.

The API package knows no CEL. The server injects a compiler through ``Context.expressions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

#: Words of CEL that cannot be names.
RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
        "namespace", "null", "package", "return", "true", "var", "void", "while",
    }
)  # fmt: skip


class Environment(Enum):
    """Which variables an expression sees."""

    DEVICE = "device"  # a device selector: a bool over ``device``
    DERIVED = "derived"  # a derived attribute: a scalar or a list of scalars over ``device``
    NAMED_RESOURCES = "namedResources"  # 1.30's selectors: a bool over ``attributes``


class CompilationResult(NamedTuple):
    """What compiling an expression found out."""

    error: str = ""  # cel-go's words; empty when the expression is fine
    internal: bool = False  # the error is not the author's fault
    max_cost: int = 0


class Compiler(Protocol):
    def __call__(
        self,
        expression: str,
        *,
        environment: Environment = Environment.DEVICE,
        list_attributes: bool = False,
        consumable_capacity: bool = True,
    ) -> CompilationResult: ...


def accept_anything(
    expression: str,
    *,
    environment: Environment = Environment.DEVICE,
    list_attributes: bool = False,
    consumable_capacity: bool = True,
) -> CompilationResult:
    """The compiler of a server without CEL."""
    return CompilationResult()


class PolicyScope(NamedTuple):
    """What an admission policy's expression sees beside ``object``, ``oldObject`` and ``request``; what it gives.

    ``variables`` are the policy's own, each a name and its expression, in the order in which they build on one
    another; None where there is no ``variables`` at all. ``results`` are the types it may evaluate to; none: any.
    """

    params: bool = False
    authorizer: bool = False
    patches: bool = False  # the types ``Object`` and ``JSONPatch``
    variables: tuple[tuple[str, str], ...] | None = None
    results: tuple[str, ...] = ("bool",)


class PolicyCompiler(Protocol):
    def __call__(self, expression: str, scope: PolicyScope) -> CompilationResult: ...


def accept_any_policy(expression: str, scope: PolicyScope) -> CompilationResult:
    return CompilationResult()


class EvaluationResult(NamedTuple):
    """What evaluating a rule of a custom resource's schema gave."""

    holds: bool = True
    error: str = ""  # why it could not be evaluated, in cel-go's words
    cost: int = 0


class MessageResult(NamedTuple):
    """What a rule's messageExpression made of a value that breaks the rule."""

    text: str = ""  # empty: there is no such expression, or it gave nothing usable
    cost: int = 0
    cancelled: bool = False  # it cost more than evaluating one expression may


class Rule(Protocol):
    """A compiled rule (``x-kubernetes-validations``) that knows the type of ``self``."""

    @property
    def verdict(self) -> CompilationResult: ...

    @property
    def message_verdict(self) -> CompilationResult:
        """The verdict on its messageExpression."""
        ...

    @property
    def uses_old(self) -> bool:
        """Whether the rule looks at ``oldSelf``."""
        ...

    @property
    def max_cardinality(self) -> int:
        """How many values of this schema fit into one object, if nothing else bounds their number."""
        ...

    def evaluate(self, value: Any, old: Any) -> EvaluationResult:
        """``old`` is None where there is no old value; the rule is then only asked if ``oldSelf`` is optional."""
        ...

    def wording(self, value: Any, old: Any) -> MessageResult: ...


class RuleCompiler(Protocol):
    def __call__(self, rule: Mapping[str, Any], schema: Mapping[str, Any], *, root: bool) -> Rule:
        """Compile a rule over values of a schema; ``root``: of a whole object, which has metadata too."""
        ...


class _Anything:
    verdict = message_verdict = CompilationResult()
    uses_old = False
    max_cardinality = 1

    def evaluate(self, value: Any, old: Any) -> EvaluationResult:
        return EvaluationResult()

    def wording(self, value: Any, old: Any) -> MessageResult:
        return MessageResult()


def accept_any_rule(rule: Mapping[str, Any], schema: Mapping[str, Any], *, root: bool) -> Rule:
    return _Anything()
