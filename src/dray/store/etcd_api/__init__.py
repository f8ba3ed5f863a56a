"""etcd's v3 messages, as far as the store uses them. ``rpc_pb2`` is generated from ``rpc.proto``."""
