"""Role-based access control: rules, who has them, and what may be given to others."""

from dray.server.auth.rbac.authorizing import RBAC
from dray.server.auth.rbac.escalation import NoEscalation
from dray.server.auth.rbac.resolving import Granted, Resolver
from dray.server.auth.rbac.rules import Rule, covered, uncovered

__all__ = ["RBAC", "Granted", "NoEscalation", "Resolver", "Rule", "covered", "uncovered"]
