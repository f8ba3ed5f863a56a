"""The kubelet's HTTPS server: logs, exec, attach and port-forward of the pods on this node."""
