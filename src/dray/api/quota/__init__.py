"""What objects cost: the evaluators that a ResourceQuota is charged by, one for each kind with a price of its own."""
