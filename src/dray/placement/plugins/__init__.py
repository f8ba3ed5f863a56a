"""The filters and scores of kube-scheduler's plugins, one module per plugin where the plugin has more than a function."""
