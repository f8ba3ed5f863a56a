"""A revisioned key-value store in etcd's model: one counter, compare-and-swap, watch, compaction, leases.

Three implementations behind one interface: ``memory``, ``sqlite`` and ``etcd``. ``open_store`` chooses.
"""

from dray.store.factory import open_store

__all__ = ["open_store"]
