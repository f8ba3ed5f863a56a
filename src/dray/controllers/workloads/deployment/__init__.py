"""The Deployment controller: it rolls from old ReplicaSets to the ReplicaSet of the current template."""
