"""The pod scheduler: informers, queue, binding cycles and events around the pure decisions of ``dray.placement``.

``component`` runs it. ``event_handlers`` keep the caches and the ``queue`` up to date, ``scheduler`` takes one pod after
the other from the queue and decides, ``binding`` writes what was decided, and ``failure_handler`` and ``preemption``
deal with the pods that no node fits. ``classic`` is loaded only where the API server has v1alpha1 or v1alpha2.
"""
