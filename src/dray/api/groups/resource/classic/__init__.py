"""Classic Dynamic Resource Allocation: ResourceClass and friends of v1alpha1 (1.26) and v1alpha2 (1.27 to 1.30).

The hub has the shape of 1.30's v1alpha2, structured parameters included.
"""
