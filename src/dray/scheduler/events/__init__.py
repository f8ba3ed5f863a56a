"""What the scheduler reports about pods: events, the PodScheduled condition and nominatedNodeName."""
