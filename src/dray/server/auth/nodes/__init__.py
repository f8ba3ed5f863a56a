"""What a node may do: its own objects, and what the pods on it need."""

from dray.server.auth.nodes.authorizing import NodeAuthorizer, unlisted_rules
from dray.server.auth.nodes.relations import Relations

__all__ = ["NodeAuthorizer", "Relations", "unlisted_rules"]
