"""The roles and bindings that every cluster has, and their upkeep."""

from dray.server.auth.rbac.bootstrappolicy.reconciliation import node_rules, reconcile

__all__ = ["node_rules", "reconcile"]
