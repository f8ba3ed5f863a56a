"""The default roles and bindings of a cluster."""

from dray.server.auth.rbac.bootstrappolicy.reconciliation import node_rules, reconcile

__all__ = ["node_rules", "reconcile"]
