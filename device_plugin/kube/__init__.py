"""The Kubernetes API for our services: protocols, values, errors and Leases, without I/O, which adapters/kube does."""
