"""Admission webhooks: servers that the API server calls about requests, which they may change or refuse.

``client`` speaks HTTP, ``admissionreview`` the admission.k8s.io protocol, ``serviceresolver`` finds servers inside the
cluster, ``sources`` keeps the configurations; ``validating`` and ``mutating`` are the two plugins.
"""
