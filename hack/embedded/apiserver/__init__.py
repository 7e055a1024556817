"""A stand-in for the Kubernetes API server: it serves the calls of this project's programs, over the real protocol."""

from hack.embedded.apiserver.server import EmbeddedApiServer

__all__ = ["EmbeddedApiServer"]
