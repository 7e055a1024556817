"""One cluster for all tests here. Set VGPU_CONTRACT_ADDRESS (host:port, plain HTTP) to try another than the stand-in.

Then VGPU_CONTRACT_TOKENS names a JSON file with a token for each role; manifests/admission must be applied there.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.embedded.apiserver import EmbeddedApiServer
from tests.contract.cluster import PODS, Cluster, pod, unique

USERS = {
    "admin": "system:admin",
    "allocator": "system:serviceaccount:vgpu-system:vgpu-cluster",
    "agent": "system:serviceaccount:vgpu-system:vgpu-node",
    "kubelet": "system:node:n1",
    "tenant": "jane",
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if address := os.environ.get("VGPU_CONTRACT_ADDRESS"):
        made = Cluster(address, json.loads(Path(os.environ["VGPU_CONTRACT_TOKENS"]).read_text()))
        yield made
        made.close()
        return
    tokens = {role: f"token-of-{role}" for role in USERS}
    server = EmbeddedApiServer(
        tokens={tokens[role]: user for role, user in USERS.items()}, bookmark_seconds=0.2
    )
    server.start()
    made = Cluster(server.url.removeprefix("http://"), tokens, server.compact)
    yield made
    made.close()
    server.stop()


@pytest.fixture
def name() -> str:
    return unique()


@pytest.fixture
def path(name: str) -> str:
    """Where the pod `name` is."""
    return f"{PODS}/{name}"


@pytest.fixture
def pending(cluster: Cluster, name: str, path: str) -> Iterator[str]:
    """The path of the pod `name`, which exists and has no node; no scheduler takes it."""
    assert cluster.post(PODS, pod(name, schedulerName="nobody")).code == 201
    yield path
    cluster.delete(f"{path}?gracePeriodSeconds=0")
