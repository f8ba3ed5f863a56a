"""The DaemonSet controller: one pod on every node that should run it."""
