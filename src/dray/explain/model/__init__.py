"""What the tools work on and what they find: snapshots, manifests, the cluster made of them, explanations."""
