"""Controllers: each watches some kinds and brings the cluster into the state that their objects ask for.

A controller is a module, or a package where it is large. Pure functions decide what to do; doing it is idempotent, so a
controller may be stopped anywhere and started again.
"""
