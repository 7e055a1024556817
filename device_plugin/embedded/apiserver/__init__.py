"""A stand-in for the Kubernetes API server: the calls that this project's programs make, on the real wire protocol."""

from device_plugin.embedded.apiserver.server import EmbeddedApiServer

__all__ = ["EmbeddedApiServer"]
