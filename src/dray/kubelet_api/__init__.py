"""The gRPC interfaces around a kubelet: plugin registration, DRA, device health, pod resources and CRI.

Messages are generated from the ``.proto`` files beside this one (``scripts/protos``); ``services`` turns their
service descriptions into stubs and handlers. Both the driver SDK and the node agent build on this package; importing it
does not import grpc.
"""
