"""A stand-in for the Kubernetes API server: the calls that this project's programs make, on the real wire protocol."""

from hack.embedded.apiserver.server import EmbeddedApiServer

__all__ = ["EmbeddedApiServer"]
