"""The Kubernetes API over kept HTTP connections, decoded into core types."""
