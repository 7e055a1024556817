"""The cluster as the watches show it: pods, inventories, reports, promises, loads, and the ledger of all holdings.

`pod_news`, `node_news` and `job_news` record objects as they are seen; `accounts` keeps the ledger equal to them.
"""

import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress

from device_plugin.core.claims import ClaimRequests
from device_plugin.core.ledger import Ledger, Snapshot
from device_plugin.core.pods import Pod
from device_plugin.core.requests import NO_CLAIMS, PodRequest, RequestSource, all_resource_names
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import GoneError
from device_plugin.state.accounts import Accounts, Follower
from device_plugin.state.agents import Agents
from device_plugin.state.claim_news import ClaimNews
from device_plugin.state.claims import KnownClaims, ServedClaims
from device_plugin.state.faults import Faults
from device_plugin.state.loads import MeasuredLoads
from device_plugin.state.news import JobNews, Listed, NodeNews, PodNews
from device_plugin.state.pods import KnownPods
from device_plugin.state.promises import Promises
from device_plugin.state.reports import Reports


class ClusterView:
    """Holds the known state of the cluster. Callers take `lock` around calls that belong together.

    Each method takes the lock too, unless it says otherwise. Pods may ask by ResourceClaims if `served` is given.
    """

    def __init__(
        self, prefixes: Sequence[str], clock: Callable[[], float], stale_seconds: float = 60.0,
        wall: Callable[[], float] = time.time, served: ServedClaims | None = None,
    ) -> None:  # fmt: skip
        self.lock = threading.RLock()
        self.ledger = Ledger()
        self.measured = MeasuredLoads(self.ledger, stale_seconds, clock)
        self.agents = Agents()
        self.faults = Faults()
        self.reports = Reports()
        self.serves_claims = served is not None
        self.claims = KnownClaims()
        self._by_claims: RequestSource = (
            ClaimRequests(prefixes, self.claims.find, served.unit_mib) if served else NO_CLAIMS
        )
        self.pods = KnownPods(tuple(prefixes), self._by_claims)
        self.promises = Promises(self.ledger, self.pods, self.reports, self.faults, clock, wall)
        self.listed = Listed(self.promises.begin, *(("claims",) if served else ()))
        self.accounts = Accounts(self.ledger, self.pods, self.reports, self.promises, self.faults)
        resources = all_resource_names(prefixes)
        self.pod_news = PodNews(
            self.lock,
            self.pods,
            self.accounts,
            self.listed,
            resources,
            clock,
            served.scheduler if served else "",
        )
        self.claim_news = ClaimNews(
            self.lock, self.claims, self.pods, self.listed, self.pod_news.claim_changed
        )
        self.node_news = NodeNews(self.lock, self.ledger, self.accounts, self.faults, self.listed, clock)
        self.gangs = self.pod_news.gangs
        self.job_news = JobNews(self.lock, self.promises, self.listed, self.gangs)
        self._clock = clock

    def read_claims(self, *, known: bool) -> None:
        """Read pods' requests from limits and from ResourceClaims if `known` is true, else from limits alone.

        A new view reads them as if `known` were true. Without `served`, the settings of claims, nothing changes.
        """
        with self.lock:
            self.pods.read_from(self._by_claims if known else NO_CLAIMS)

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
        """End what is over now: stale loads, promises of slices to jobs, and slices of vanished pods without a report.

        Changes of cards that came too often, and have waited long enough, are applied.
        """
        with self.lock:
            self.measured.expire()
            now = self._clock()
            if now >= self.promises.first_end:
                self.promises.expire(now)
            for uid in self.reports.expired(now):
                self.accounts.free_ended(uid)
            self.node_news.apply_due(now)

    def claim_in_use(self, pod: Pod, request: PodRequest) -> str:
        """A text that names another pod which uses a ResourceClaim of this pod; empty if none does. The lock is held.

        The first pod of a claim that gets slices keeps the claim until it has ended.
        """
        names = {container.name: container.claims for container in pod.containers}
        for container, claim in request.claims:
            for other in self.ledger.claimed(claim):
                known = self.pods.get(other) if other != pod.uid else None
                if known is not None:
                    name = (pod.claims or {}).get(names[container][0])
                    return (
                        f"ResourceClaim {name} is used by pod {known.name}: give each pod a claim of its own"
                    )
        return ""

    def free(self, uid: str) -> None:
        """Free the pod's slices in the ledger, but not slices that the pod's processes may still use."""
        with self.lock:
            self.accounts.free(uid)

    def notes(self, nodes: Container[str]) -> Mapping[str, str]:
        """A text, for refusals, for each of `nodes` where ended pods hold slices, or slices are kept for a job.

        The text has no counts or times, so it seldom changes.
        """
        with self.lock:
            found = dict(self.reports.notes(nodes))
            for node, text in self.promises.slices.notes(nodes).items():
                found[node] = f"{found[node]}; {text}" if node in found else text
            return found

    def suspects(self) -> set[str]:
        """Return the set of nodes whose grants may overlap, and empty it."""
        with self.lock:
            return self.accounts.take_suspects()

    def suspect(self, node: str) -> None:
        """Add a node whose grants may overlap, so that they are checked later."""
        with self.lock:
            self.accounts.suspect(node)


def read_again(api: Api, view: ClusterView, pod: Pod) -> Pod | None:
    """Read the pod from the API server again and record it; returns the pod. Raises ApiError.

    If the pod is gone, its removal is recorded, and None is returned.
    """
    found: Pod | None = None
    with suppress(GoneError):
        found = api.get(PODS, pod)
    if found is None or found.uid != pod.uid:
        view.pod_news.gone(pod.uid)
        return None
    view.pod_news.see(found, watched=False)
    return found
