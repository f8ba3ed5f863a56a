"""The pure part of scheduling: which node a pod gets, which devices its claims get there, and whom it may preempt."""
