"""The StatefulSet controller: it creates pods with stable names in order, and their PersistentVolumeClaims."""
