"""Fixtures: a node that runs real containers, and one whose containers are minimal."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.hack.embedded import launcher
from tests.hack.embedded.kubelet.one_node import OneNode


@pytest.fixture(scope="session", autouse=True)
def _launcher() -> None:
    launcher.build()


@pytest.fixture
def make_node() -> Iterator[Callable[..., OneNode]]:
    """Makes nodes, and ends them after the test."""
    nodes: list[OneNode] = []

    def make(**options: Any) -> OneNode:
        nodes.append(OneNode(**options))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: Callable[..., OneNode]) -> OneNode:
    """Containers are processes."""
    return make_node()
