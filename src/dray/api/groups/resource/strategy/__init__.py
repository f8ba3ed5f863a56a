"""Strategies of the resource.k8s.io kinds: what a write may change, which gated fields it loses, who may do what."""
