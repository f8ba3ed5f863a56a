"""The scheduling queue: active, backoff, unschedulable and gated pods, and the queueing hints that move pods between them."""
