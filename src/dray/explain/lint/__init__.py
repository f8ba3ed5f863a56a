"""Findings about manifests: what the API server would refuse, and rules that look at the whole."""
