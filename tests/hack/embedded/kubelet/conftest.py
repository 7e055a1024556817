"""Fixtures: nodes of clusters of their own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import compiled
from tests.hack.embedded.kubelet.own_node import OwnNode


@pytest.fixture(scope="session", autouse=True)
def _launcher() -> None:
    compiled.launcher()


@pytest.fixture
def make_node() -> Iterator[Callable[..., OwnNode]]:
    """Makes nodes, and ends them after the test."""
    nodes: list[OwnNode] = []

    def make(**options: Any) -> OwnNode:
        nodes.append(OwnNode(**options))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: Callable[..., OwnNode]) -> OwnNode:
    """Containers are processes."""
    return make_node()
