"""Controllers: each watches a little of the cluster and brings it into the state it should be in.

One module a controller. What to do is decided by pure functions; doing it is idempotent, so a controller may be
stopped anywhere and started again.
"""
