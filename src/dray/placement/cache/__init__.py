"""The scheduler's cache: nodes with their pods, claims and devices, with what is assumed but not written yet. Whoever owns the cache feeds it: informers in the scheduler, a snapshot in explain."""
