"""The cluster as the watches show it: pods, inventories, reports, promises and loads, and who holds what in the ledger.

`news` takes what watches, lists, reads and our own writes show, `accounts` keeps the ledger in step with it.
"""

import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress

from device_plugin.core.ledger import Ledger, Snapshot
from device_plugin.core.pods import Pod
from device_plugin.core.requests import resource_names
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import GoneError
from device_plugin.state.accounts import Accounts, Follower
from device_plugin.state.agents import Agents
from device_plugin.state.faults import Faults
from device_plugin.state.loads import MeasuredLoads
from device_plugin.state.news import JobNews, Listed, NodeNews, PodNews
from device_plugin.state.pods import KnownPods
from device_plugin.state.promises import Promises
from device_plugin.state.reports import Reports


class ClusterView:
    """Take `lock` around several calls that belong together; each call takes it too."""

    def __init__(
        self, prefixes: Sequence[str], clock: Callable[[], float], stale_seconds: float = 60.0,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.lock = threading.RLock()
        self.ledger = Ledger()
        self.measured = MeasuredLoads(self.ledger, stale_seconds, clock)
        self.agents = Agents()
        self.faults = Faults()
        self.reports = Reports()
        self.pods = KnownPods(tuple(prefixes))
        self.promises = Promises(self.ledger, self.pods, self.reports, self.faults, clock, wall)
        self.listed = Listed(self.promises.begin)
        self.accounts = Accounts(self.ledger, self.pods, self.reports, self.promises, self.faults)
        resources = {name for prefix in prefixes for name in resource_names(prefix)}
        self.pod_news = PodNews(self.lock, self.pods, self.accounts, self.listed, resources, clock)
        self.node_news = NodeNews(self.lock, self.ledger, self.accounts, self.faults, self.listed, clock)
        self.job_news = JobNews(self.lock, self.promises, self.listed)
        self._clock = clock

    def follow(self, follower: Follower) -> None:
        """Report every change of a pod to `follower` from now on."""
        self.accounts.followers.append(follower)

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""
        return self.listed.why_not()

    def snapshot(self) -> Snapshot:
        """An immutable snapshot of the ledger, to be read without the lock."""
        with self.lock:
            return self.ledger.snapshot()

    def expire(self) -> None:
        """Remove old loads and the slices of pods that vanished, and apply changes of cards that had to wait."""
        with self.lock:
            self.measured.expire()
            now = self._clock()
            if now >= self.promises.first_end:
                self.promises.expire(now)
            for uid in self.reports.expired(now):
                self.accounts.free_ended(uid)
            self.node_news.apply_due(now)

    def free(self, uid: str) -> None:
        """End the pod's holding; slices that its processes may still use stay held."""
        with self.lock:
            self.accounts.free(uid)

    def notes(self, nodes: Container[str]) -> Mapping[str, str]:
        """A text for refusals, by node, about any slices that outlive their pod or are kept for a job.

        It has no counts or times, so it seldom changes.
        """
        with self.lock:
            found = dict(self.reports.notes(nodes))
            for node, text in self.promises.slices.notes(nodes).items():
                found[node] = f"{found[node]}; {text}" if node in found else text
            return found

    def suspects(self) -> set[str]:
        """Nodes where grants may overlap; each is returned once."""
        with self.lock:
            return self.accounts.take_suspects()

    def suspect(self, node: str) -> None:
        """Look at the node's grants again later."""
        with self.lock:
            self.accounts.suspect(node)


def read_again(api: Api, view: ClusterView, pod: Pod) -> Pod | None:
    """The pod as the API server has it now, which is recorded; None if it is gone. Raises ApiError."""
    found: Pod | None = None
    with suppress(GoneError):
        found = api.get(PODS, pod)
    if found is None or found.uid != pod.uid:
        view.pod_news.gone(pod.uid)
        return None
    view.pod_news.see(found, watched=False)
    return found
