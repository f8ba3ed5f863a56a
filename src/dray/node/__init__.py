"""The node agent: what a kubelet does for pods and their claims, on any Kubernetes API server.

``run.run`` is the entry point. ``pod_actions`` and ``pod_status`` decide and are pure; ``pod_worker`` carries out the
decisions for one pod; ``agent`` connects the parts of a node; ``dra`` is about claims and drivers.
"""
