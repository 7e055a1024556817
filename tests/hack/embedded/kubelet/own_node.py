"""The contract suite's node on a stand-in of the test's own, whose kubelet has the test's options."""

from typing import Any

from hack.embedded.apiserver import EmbeddedApiServer
from tests.contract.cluster import Cluster
from tests.contract.kubelet.machines import NODE, StandIn
from tests.contract.kubelet.node import Node


class OwnNode(Node):
    """Started on construction; `close` ends everything and checks that nothing is left."""

    def __init__(self, **options: Any) -> None:
        self.server = EmbeddedApiServer()
        self.server.start()
        self.cluster = Cluster(self.server.url.removeprefix("http://"), {"admin": {}})
        self.standin = StandIn(self.server.url, f"system:node:{NODE}", **options)
        super().__init__(self.cluster, self.standin)

    def close(self) -> None:
        super().close()
        self.standin.close()
        self.cluster.close()
        self.server.stop()
