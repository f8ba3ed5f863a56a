"""The pure part of scheduling for claims of the classic generation (resource.k8s.io/v1alpha1 and v1alpha2)."""
