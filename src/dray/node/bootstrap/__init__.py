"""How a node joins a cluster: it reads cluster-info with a bootstrap token and requests its client certificate."""
