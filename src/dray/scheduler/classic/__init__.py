"""The scheduler shell for claims of the classic generation: informers, PodSchedulingContexts and claim writes."""
