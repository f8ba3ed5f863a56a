"""The Kubernetes API as Python: transports, a client, informers, work queues, leader election, events.

Works on any Kubernetes API server. Objects are plain dicts, of the types in ``dray.api.types``; those that a client or an
informer returns are shared and must not be changed.
"""
