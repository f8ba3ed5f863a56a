"""The roles and bindings that every cluster has, and their upkeep."""

from dray.server.auth.policy.reconciling import reconcile

__all__ = ["reconcile"]
