"""Dynamic resources on a node: drivers that register, claims that are prepared and unprepared, device health.

The rules are the kubelet's. ``claims`` reads which claims a pod uses, ``claiminfo`` remembers which are prepared,
``plugin`` calls a driver, ``plugin_watcher`` finds drivers, ``plugin_manager`` keeps those that have registered, and
``manager`` brings these together. ``classic`` is for claims and drivers of Kubernetes 1.26 to 1.30.
"""
