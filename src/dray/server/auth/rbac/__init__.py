"""Role-based access control: policy rules, the rule resolver, the authorizer and the escalation check."""

from dray.server.auth.rbac.authorizer import RBACAuthorizer
from dray.server.auth.rbac.escalation import EscalationCheck
from dray.server.auth.rbac.resolver import Grant, RuleResolver
from dray.server.auth.rbac.rules import PolicyRule, uncovered

__all__ = ["EscalationCheck", "Grant", "PolicyRule", "RBACAuthorizer", "RuleResolver", "uncovered"]
