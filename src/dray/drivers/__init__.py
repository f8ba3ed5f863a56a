"""Drivers that come with dray, built on the SDK: fake GPUs on every node, and network cards that any node can attach.

Each is a model for one's own: ``gpu`` for devices that belong to a node, ``nic`` for devices that do not.
"""
