"""A real Kubernetes cluster of several nodes on one Linux machine, for tests: `hack/cluster`."""
