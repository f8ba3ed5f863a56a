"""Controllers that keep pods running: ReplicaSet, Deployment, StatefulSet, DaemonSet, Job and CronJob."""
