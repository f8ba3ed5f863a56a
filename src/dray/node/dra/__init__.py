"""Dynamic resources on a node: drivers that register, claims that are prepared and unprepared, device health.

The rules are the kubelet's. ``claims`` reads what a pod asks for, ``state`` remembers what was done about it,
``plugins`` are the drivers, ``watcher`` finds them, ``manager`` brings these together.
"""
