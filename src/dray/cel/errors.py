"""What can go wrong with an expression: it does not compile, or it fails while it runs."""

from __future__ import annotations

from enum import Enum


class ErrorType(Enum):
    """Upstream's ErrorType: an expression that is wrong, or one that cannot be planned."""

    INVALID = "invalid"
    INTERNAL = "internal"


class CompileError(Exception):
    """An expression that cannot be used. The message is upstream's, positions and source snippets included."""

    def __init__(self, message: str, *, type: ErrorType = ErrorType.INVALID) -> None:
        super().__init__(message)
        self.message = message
        self.type = type


class EvaluationError(Exception):
    """A failure while evaluating.

    Inside the evaluator it travels as a value, not as an exception: ``false && error`` is false, and an
    operator evaluates its right side even if the left one failed. Only the outcome as a whole is raised.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CostExceeded(EvaluationError):
    """The run-time cost limit was passed. Unlike other errors no operator can absorb this one."""

    def __init__(self, message: str = "operation cancelled: actual cost limit exceeded") -> None:
        super().__init__(message)


def no_such_overload(function: str = "", *types: str) -> EvaluationError:
    if not function:
        return EvaluationError("no such overload")
    return EvaluationError(f"no such overload: {function}({', '.join(types)})")
