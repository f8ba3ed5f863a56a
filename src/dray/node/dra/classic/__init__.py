"""What the kubelets of Kubernetes 1.26 to 1.30 did for claims and drivers of the classic generation."""
