"""CEL: parse, check, estimate the cost of, compile and run expressions exactly as Kubernetes does. Pure.

``devices`` holds the environment of device selectors, ``admission`` that of admission policies,
``named_resources`` that of Kubernetes 1.30's structured parameters, ``validations`` that of the rules in the
schemas of custom resources.
"""

from __future__ import annotations

from dray.cel.errors import CompileError, CostExceeded, ErrorType, EvaluationError

__all__ = ["CompileError", "CostExceeded", "ErrorType", "EvaluationError"]
