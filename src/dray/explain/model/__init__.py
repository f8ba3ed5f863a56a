"""Snapshots, manifests, the cluster made of them, and explanations as data."""
