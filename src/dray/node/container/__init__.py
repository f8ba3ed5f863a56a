"""What one container of a pod is given and leaves behind: configuration, CDI devices, hooks, termination message."""
