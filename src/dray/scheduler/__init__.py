"""The pod scheduler, with devices as first-class citizens.

Pure decisions (``pods``, ``nodes``, ``filters``, ``scores``, ``placement``, ``devices``, ``preemption``, ``queue``)
inside, and an async shell around them: ``watching`` hears what happens, ``pending`` keeps the pods that want a node,
``scheduler`` has them decided upon, ``outcomes`` and what is wired in ``writing`` see to the rest.
"""
