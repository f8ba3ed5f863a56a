"""What this API server does and kube-apiserver does not: it books devices and names the claims of new pods."""
