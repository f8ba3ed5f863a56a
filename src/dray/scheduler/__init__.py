"""The pod scheduler, with devices as first-class citizens.

Pure decisions (``pods``, ``nodes``, ``filters``, ``scores``, ``placement``, ``devices``, ``preemption``, ``queue``)
inside, and one async shell (``running``, ``binding``) that reads informers and writes what was decided.
"""
