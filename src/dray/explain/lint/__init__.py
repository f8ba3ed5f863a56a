"""Findings about manifests: what the API server would refuse, and rules about objects that refer to each other."""
