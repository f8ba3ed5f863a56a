"""Drivers that come with dray, built on the SDK: fake GPUs on every node, network cards that any node can attach, and cats.

Each is a model for drivers of others: ``gpu`` for devices that belong to a node, ``nic`` for devices that do not,
``cats`` for every generation of the API.
"""
