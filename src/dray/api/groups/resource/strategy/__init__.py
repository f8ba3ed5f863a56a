"""Rules for writing the resource.k8s.io kinds: what each door may change, what gates drop, who may do what."""
