"""Stand-ins for the binaries that controller-runtime's envtest starts, so that a Go test-suite runs on dray."""
