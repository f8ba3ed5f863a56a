"""The environments of Kubernetes: the base environment of a release, and what device selectors, admission policies, custom resources and named resources see on top of it."""
