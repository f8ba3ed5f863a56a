"""The node authorizer: what a kubelet may do."""

from dray.server.auth.nodes.authorizer import NodeAuthorizer, unlisted_rules
from dray.server.auth.nodes.graph import Graph

__all__ = ["Graph", "NodeAuthorizer", "unlisted_rules"]
