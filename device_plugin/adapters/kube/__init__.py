"""Calls the Kubernetes API over reused HTTP connections, and decodes objects into core types."""
