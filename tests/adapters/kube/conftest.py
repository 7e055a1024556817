"""A real HTTP API server, and a client of it."""

from collections.abc import Iterator

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.kube.api import NODES, PODS, Ref
from hack.embedded.apiserver import EmbeddedApiServer
from tests.builders import objects


@pytest.fixture
def api() -> Iterator[EmbeddedApiServer]:
    server = EmbeddedApiServer(bookmark_seconds=0.1)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(api: EmbeddedApiServer) -> Iterator[KubeClient]:
    made = KubeClient(Endpoint(api.url, lambda: None), "test", timeout=20.0)
    yield made
    made.close()


def node(client: KubeClient, name: str) -> None:
    client.create(NODES, objects.node(name))


def annotate(client: KubeClient, node: str, **values: str | None) -> None:
    client.patch(NODES, Ref(node), {"metadata": {"annotations": values}})


def pod(client: KubeClient, name: str, **limits: str) -> None:
    client.create(PODS, objects.pod(name, limits), "default")
