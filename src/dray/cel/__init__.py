"""CEL: parse, check, estimate the cost of, compile and run expressions exactly as Kubernetes does. Pure.

``environment.devices`` compiles device selectors, ``environment.admission`` the expressions of admission policies,
``environment.named_resources`` the selectors of Kubernetes 1.30's structured parameters, and
``environment.validations`` the rules in the schemas of custom resources.
"""

from __future__ import annotations

from dray.cel.errors import CompileError, CostExceeded, ErrorType, EvaluationError

__all__ = ["CompileError", "CostExceeded", "ErrorType", "EvaluationError"]
