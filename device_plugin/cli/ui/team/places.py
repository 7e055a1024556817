"""Reads the places of waiting Jobs in their queues for the page for a team, from the metrics of the job engine."""

from collections.abc import Callable, Mapping

from device_plugin.adapters.agents import read_metrics
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.metrics import read_samples
from device_plugin.cli.ui.asking import Asking
from device_plugin.kube.api import AGENTS, Where
from device_plugin.kube.errors import ApiError

ASK_SECONDS = 10.0
PLACE = "vgpu_job_place"
# Most replicas that are asked, each for a second at most, and most places that are read of one.
MOST_REPLICAS, MOST_PLACES = 8, 1000
MOST_PLACE = 1_000_000
_LABELS = "app.kubernetes.io/name=vgpu,app.kubernetes.io/component=jobs"


class QueuePlaces(Asking):
    """Asks the replicas of the job engine every ASK_SECONDS while a browser shows the page.

    `namespace` is the replicas' namespace. `tell` is called with the places, by namespace and name of the Job. A
    replica that does not answer, or plans nothing, adds no places.
    """

    def __init__(
        self, client: KubeClient, namespace: str, tell: Callable[[Mapping[tuple[str, str], int]], None],
        is_open: Callable[[], bool],
    ) -> None:  # fmt: skip
        super().__init__("ui-places", is_open)
        self._client = client
        self._namespace = namespace
        self._tell = tell

    def step(self) -> float:
        """Ask all replicas once, and call `tell`; returns the seconds until the next question."""
        found: dict[tuple[str, str], int] = {}
        for address in self._addresses():
            found |= _places(address)
        self._tell(found)
        return ASK_SECONDS

    def _addresses(self) -> list[str]:
        """Returns the addresses of the running replicas; empty if the API server does not list them."""
        try:
            # Their port has the same name as that of the node agents.
            replicas = self._client.list(AGENTS, Where(self._namespace, _LABELS)).items
        except ApiError:
            return []
        return [each.address for each in replicas if each.address][:MOST_REPLICAS]


def _places(address: str) -> Mapping[tuple[str, str], int]:
    """Returns each Job's place in its queue, by namespace and Job, from a replica; empty if it does not answer."""
    try:
        samples = read_samples(read_metrics(address), PLACE, MOST_PLACES)
        return {
            (labels.get("namespace", ""), labels.get("job", "")): int(value)
            for labels, value in samples
            if 1 <= value <= MOST_PLACE
        }
    except (OSError, ValueError):
        return {}
