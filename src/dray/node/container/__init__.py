"""What one container of a pod is given and leaves behind: configuration, environment, CDI devices, lifecycle hooks, termination message."""
