"""Where clusters and workloads of simulations come from: snapshots, node groups, manifests, traces, generators."""
