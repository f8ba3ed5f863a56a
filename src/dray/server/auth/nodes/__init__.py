"""What a node may do: its own objects, and what the pods on it need."""

from dray.server.auth.nodes.authorizer import NodeAuthorizer, unlisted_rules
from dray.server.auth.nodes.graph import Graph

__all__ = ["Graph", "NodeAuthorizer", "unlisted_rules"]
