"""The Kubernetes API as our services see it: protocols, values, errors and Leases. No I/O: adapters/kube does that."""
