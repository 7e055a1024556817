"""A real Kubernetes of several nodes on one Linux machine, for tests: `hack/cluster`. Not part of the product."""
