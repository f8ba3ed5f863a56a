"""The Kubernetes API as Python: transports, a client, informers, work queues, leader election, events.

Works on any Kubernetes API server. Objects are plain dicts, of the types in ``dray.api.types``; those that a client or an
informer returns are shared and must not be changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.exports import lazy

if TYPE_CHECKING:
    from dray.client.client import Client, ObjectList, PatchType
    from dray.client.config import Config, ConfigError
    from dray.client.conversion import v1_client
    from dray.client.discovery import Discovery
    from dray.client.events import EventRecorder
    from dray.client.factory import connect
    from dray.client.http import HttpTransport
    from dray.client.informers import Handler, Informer, Informers
    from dray.client.kubeconfig import in_cluster
    from dray.client.kubeconfig import load as load_kubeconfig
    from dray.client.leaderelection import LeaderElector, LeadershipLost
    from dray.client.resources import ObjectKey, Resource, key_of
    from dray.client.retry import retry_on_conflict
    from dray.client.transport import Transport, Unreachable, WatchEvent
    from dray.client.workqueue import QueueClosed, WorkQueue

__all__ = [
    "Client",
    "Config",
    "ConfigError",
    "Discovery",
    "EventRecorder",
    "Handler",
    "HttpTransport",
    "Informer",
    "Informers",
    "LeaderElector",
    "LeadershipLost",
    "ObjectKey",
    "ObjectList",
    "PatchType",
    "QueueClosed",
    "Resource",
    "Transport",
    "Unreachable",
    "WatchEvent",
    "WorkQueue",
    "connect",
    "in_cluster",
    "key_of",
    "load_kubeconfig",
    "retry_on_conflict",
    "v1_client",
]

__getattr__ = lazy(
    __name__,
    {
        "Client": "client",
        "Config": "config",
        "ConfigError": "config",
        "Discovery": "discovery",
        "EventRecorder": "events",
        "Handler": "informers",
        "HttpTransport": "http",
        "Informer": "informers",
        "Informers": "informers",
        "LeaderElector": "leaderelection",
        "LeadershipLost": "leaderelection",
        "ObjectKey": "resources",
        "ObjectList": "client",
        "PatchType": "client",
        "QueueClosed": "workqueue",
        "Resource": "resources",
        "Transport": "transport",
        "Unreachable": "transport",
        "WatchEvent": "transport",
        "WorkQueue": "workqueue",
        "connect": "factory",
        "in_cluster": "kubeconfig",
        "key_of": "resources",
        "load_kubeconfig": "kubeconfig:load",
        "retry_on_conflict": "retry",
        "v1_client": "conversion",
    },
)
