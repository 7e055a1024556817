"""The machines below the cluster, which only the project's own cluster lets a test stop and start."""

import os
from typing import Any

from device_plugin.kube.api import NODES, PODS
from device_plugin.kube.errors import ApiError
from hack.testbed import layout
from hack.testbed.cluster import INSIDE
from hack.testbed.supervisor import order
from tests.e2e.kubectl import Kubectl, KubectlError, api, is_ready
from tests.e2e.waiting import eventually
from tests.requirement import require


class Machines:
    """Orders to the control plane and the nodes: see hack/testbed/supervisor.py."""

    def __init__(self) -> None:
        require(
            os.environ.get(INSIDE), "stops programs of nodes, so it needs the project's own cluster: make e2e"
        )
        self._layout = layout.here()
        self._touched: set[str] = set()

    def order(self, machine: str, do: str, program: str = "", **details: object) -> dict[str, Any]:
        """Give an order to one machine's supervisor, such as ("n1", "kill", "kubelet")."""
        self._touched.add(machine)
        return order(self._layout.control(machine), do, program=program, **details)

    def run(self, node: str, *command: str) -> str:
        """What `command` prints on the node, as root there."""
        answer = order(self._layout.control(node), "run", command=command)
        assert answer["status"] == 0, f"{' '.join(command)} on {node}: {answer['output']}"
        return str(answer["output"])

    def recover(self) -> None:
        """Everything runs, and all nodes are Ready."""
        for machine in self._touched:
            for program in order(self._layout.control(machine), "status")["programs"]:
                self.order(machine, "start", program)
                self.order(machine, "resume", program)
        assert eventually(all_ready, 120)


def all_ready() -> bool:
    """The API server is ready, and every node of the cluster too."""
    try:
        api().text("/readyz")  # before that it takes no new objects
        Kubectl("").items(
            PODS, fields="metadata.name=none"
        )  # it has a connection to etcd for each kind of objects
        nodes = Kubectl("").items(NODES)
    except (ApiError, KubectlError):
        return False
    return all(map(is_ready, nodes))
