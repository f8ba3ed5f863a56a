"""Admission webhooks: servers that are asked about requests, and may change or refuse them.

``calling`` speaks HTTP, ``reviews`` the admission.k8s.io protocol, ``services`` finds servers inside the cluster,
``sources`` keeps the configurations; ``validating`` and ``mutating`` are the two plugins.
"""
